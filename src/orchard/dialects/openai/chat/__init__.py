"""OpenAI's Chat Completions: https://platform.openai.com/docs/api-reference/chat/create."""
