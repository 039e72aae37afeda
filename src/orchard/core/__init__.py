"""Requests, events and errors, which all other packages share. No I/O, no MLX, no HTTP."""
