"""Media of requests: checks, uploads, and fetching their bytes for the worker."""
