"""The narrow waist: what a request is, what a stream of events is, how things fail. No I/O, no MLX, no HTTP."""
