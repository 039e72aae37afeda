"""Make the references for tests of embedding models and rerankers: outputs of torch and transformers, as fixtures."""
