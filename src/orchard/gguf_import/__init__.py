"""Turns GGUF files into folders in MLX format. It runs in a process of its own: see `process.py`."""
