"""Draw the pictures of the bundled vision model, ask about them, train the model and evaluate it."""
