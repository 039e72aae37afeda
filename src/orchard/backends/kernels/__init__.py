"""Faster ways to compute the layers of networks than those of MLX and of the libraries of models."""
