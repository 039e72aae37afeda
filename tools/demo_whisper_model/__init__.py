"""How the bundled Whisper model is made: speech of some sixty words, training, and measurement."""
