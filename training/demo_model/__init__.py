"""Generate the training data of the bundled model, train it and evaluate it."""
