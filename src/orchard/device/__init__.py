"""Helpers for every process that uses MLX. They import no other library for models."""
