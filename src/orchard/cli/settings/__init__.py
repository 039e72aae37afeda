"""The settings of `orchard serve`: what they are, and how the file, the environment and flags give them."""
