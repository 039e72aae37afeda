"""Ollama's chat: https://docs.ollama.com/api/chat."""
