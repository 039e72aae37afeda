"""The names of models in Ollama's API, where the Hub's are written with its address."""

_HUBS = ("hf.co/", "huggingface.co/")


def plain_name(given: str) -> str:
    """Return a model's name without the Hub's address; `hf.co/ORG/NAME:latest` is `ORG/NAME` on the Hub."""
    for hub in _HUBS:
        if given.lower().startswith(hub):
            return given[len(hub) :].removesuffix(":latest")
    return given
