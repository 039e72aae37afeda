"""Audio models: speech becomes text, and text becomes speech."""
