"""OpenAI's Transcriptions and Translations."""
