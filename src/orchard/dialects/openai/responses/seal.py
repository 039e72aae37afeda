"""The `encrypted_content` of a compaction or a reasoning item.

It is encoded, not encrypted, as the text is the caller's own. A summary is signed with a key of the server's, since
what is read as the server's summary must be one.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable

Unseal = Callable[[str], str | None]
"""Returns the summary that an `encrypted_content` holds; None where it is not as this server made it."""

_REASONING_MARK = "orchard-reasoning-1:"
_MARK = "orchard-compaction-1:"


def seal(summary: str, key: bytes) -> str:
    """Return the `encrypted_content` that brings a summary back."""
    text = summary.encode()
    return _MARK + base64.b64encode(_tag(text, key) + text).decode()


def unseal(sealed: str, key: bytes) -> str | None:
    """Return the summary; None where it was altered, or made with another key."""
    try:
        content = base64.b64decode(sealed.removeprefix(_MARK), validate=True)
    except ValueError:
        return None
    size = hashlib.sha256().digest_size
    tag, text = content[:size], content[size:]
    authentic = sealed.startswith(_MARK) and hmac.compare_digest(tag, _tag(text, key))
    return text.decode() if authentic else None


def unknown(_: str) -> None:
    """Unseal nothing: there is no key, so nothing was sealed."""


def seal_reasoning(reasoning: str) -> str:
    """Return the `encrypted_content` that brings a reasoning back."""
    return _REASONING_MARK + base64.b64encode(reasoning.encode()).decode()


def unseal_reasoning(sealed: str | None) -> str:
    """Return the reasoning; an empty string where another server sealed it."""
    if not sealed or not sealed.startswith(_REASONING_MARK):
        return ""
    try:
        return base64.b64decode(sealed.removeprefix(_REASONING_MARK), validate=True).decode()
    except ValueError:
        return ""


def _tag(text: bytes, key: bytes) -> bytes:
    return hmac.digest(key, _MARK.encode() + text, hashlib.sha256)
