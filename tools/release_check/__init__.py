"""What is published: build it, look into it, and try it in empty environments."""
