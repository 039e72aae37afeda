"""The processes of a model that runs on several ranks."""
