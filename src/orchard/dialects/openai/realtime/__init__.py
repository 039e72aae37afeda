"""OpenAI's Realtime API, in the form of its general availability: https://developers.openai.com/api/docs/guides/realtime."""
