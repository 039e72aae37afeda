"""From a request's messages to tokens."""
