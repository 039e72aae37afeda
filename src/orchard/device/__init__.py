"""What every process that uses MLX needs of it, whatever else is installed there."""
