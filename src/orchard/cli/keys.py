"""The API key that a client sends."""


def first_key(given: str | None) -> str | None:
    """Give the first of the keys that commas separate; None where there is none."""
    return (given or "").split(",")[0].strip() or None
