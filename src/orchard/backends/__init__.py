"""One file a kind of model. MLX and its libraries are imported when a model is loaded, not before."""
