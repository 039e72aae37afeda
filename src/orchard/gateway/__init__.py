"""The gateway: the process that speaks HTTP, in all dialects. It never imports MLX."""
