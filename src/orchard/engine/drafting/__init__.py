"""A smaller model that guesses what a larger one will say."""
