"""Make the bundled Whisper model: speech of some sixty words, training, and measurement."""
