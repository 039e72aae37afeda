"""Ollama's generate: https://docs.ollama.com/api/generate."""
