"""Models that generate text: from a request to tokens and back to events."""
