"""OpenAI's Responses: created, streamed, stored, and run in the background."""
