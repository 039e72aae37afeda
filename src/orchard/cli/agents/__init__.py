"""`orchard agent`: coding agents that work with a local model."""
