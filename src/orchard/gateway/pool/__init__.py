"""Which models are in memory, and the worker processes."""
