"""The engine: one thread that owns MLX and turns prompts into tokens."""
