"""Draw the images of the bundled vision model, write questions about them, train the model and evaluate it."""
