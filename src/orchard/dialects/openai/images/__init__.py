"""OpenAI's Images: generations and edits."""
