"""Computes the layers of networks faster than MLX and the model libraries do."""
