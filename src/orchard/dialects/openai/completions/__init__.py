"""OpenAI's Completions: https://platform.openai.com/docs/api-reference/completions/create."""
