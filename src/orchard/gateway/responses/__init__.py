"""OpenAI's Responses: made, streamed, and run in the background."""
