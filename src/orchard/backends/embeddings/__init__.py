"""Models that read texts and write none: embeddings and rerankers, whose requests share passes."""
