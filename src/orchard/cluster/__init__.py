"""The hosts of a model that runs on several machines: which they are, how they are reached, and what they have."""
