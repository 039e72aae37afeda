"""OpenAI's API, and what its dialects share."""
