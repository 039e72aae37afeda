"""OpenAI's Responses and Conversations: https://platform.openai.com/docs/api-reference/responses."""
