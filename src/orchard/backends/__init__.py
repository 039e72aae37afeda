"""The code that runs models, one file or folder per kind. Only a worker imports modules that need MLX."""
