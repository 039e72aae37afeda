"""Media of requests: from where they are to the bytes that a worker gets."""
