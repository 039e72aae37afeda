"""The code that runs models: a folder per kind, and what kinds share. Only a worker imports what needs MLX."""
