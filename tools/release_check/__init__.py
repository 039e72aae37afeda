"""Check what is published: build it, inspect it, and try it in empty environments."""
