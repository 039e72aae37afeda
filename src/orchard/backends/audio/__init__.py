"""Models of sound: speech becomes text, and text becomes speech."""
