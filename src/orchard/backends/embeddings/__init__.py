"""Embedding models and rerankers. Their requests share forward passes."""
