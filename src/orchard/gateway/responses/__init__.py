"""OpenAI's Responses: created, streamed, and run in the background."""
