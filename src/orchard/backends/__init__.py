"""One file a kind of model. Only a worker imports those that need MLX."""
