"""The settings of `orchard serve`: what they are, and how they are read from the file, the environment and flags."""
