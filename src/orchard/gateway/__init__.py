"""The HTTP process: it takes requests in any dialect, and never imports MLX."""
