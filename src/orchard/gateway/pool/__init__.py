"""Which model is in memory, and the worker processes."""
