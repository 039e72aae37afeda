"""The `encrypted_content` of a compaction or a reasoning item.

It is encoded, not encrypted, because the text belongs to the caller. A summary is signed with the server's key, so that
no other text is taken for the server's summary.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable

Unseal = Callable[[str], str | None]
"""Returns the summary in an `encrypted_content`; None if this server did not make it, or it was changed."""

_REASONING_MARK = "orchard-reasoning-1:"
_MARK = "orchard-compaction-1:"


def seal(summary: str, key: bytes) -> str:
    """Return the `encrypted_content` of a summary."""
    text = summary.encode()
    return _MARK + base64.b64encode(_sign(text, key) + text).decode()


def unseal(sealed: str, key: bytes) -> str | None:
    """Return the summary; None if it was changed, or signed with another key."""
    try:
        content = base64.b64decode(sealed.removeprefix(_MARK), validate=True)
    except ValueError:
        return None
    size = hashlib.sha256().digest_size
    tag, text = content[:size], content[size:]
    authentic = sealed.startswith(_MARK) and hmac.compare_digest(tag, _sign(text, key))
    return text.decode() if authentic else None


def unseal_nothing(_: str) -> None:
    """Return None: without a key, nothing can have been sealed."""


def seal_reasoning(reasoning: str) -> str:
    """Return the `encrypted_content` of reasoning."""
    return _REASONING_MARK + base64.b64encode(reasoning.encode()).decode()


def unseal_reasoning(sealed: str | None) -> str:
    """Return the reasoning; empty if another server sealed it."""
    if not sealed or not sealed.startswith(_REASONING_MARK):
        return ""
    try:
        return base64.b64decode(sealed.removeprefix(_REASONING_MARK), validate=True).decode()
    except ValueError:
        return ""


def _sign(text: bytes, key: bytes) -> bytes:
    return hmac.digest(key, _MARK.encode() + text, hashlib.sha256)
