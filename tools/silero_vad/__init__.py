"""Makes the weights of the voice detector from Silero's package, and reference outputs of its ONNX model."""
