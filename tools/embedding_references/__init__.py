"""Makes what tests compare embeddings and rerankers with: outputs of torch and transformers, kept as fixtures."""
