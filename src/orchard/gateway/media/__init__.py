"""Get the bytes of a request's media for the worker."""
