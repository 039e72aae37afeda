"""Draft models: smaller ones of which a model of text has the guesses for its next tokens."""

from collections.abc import Mapping

from orchard.backends.model_folder import FolderModel
from orchard.backends.text import TextModel, load
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions


def load_draft(model: FolderModel, options: TextOptions) -> TextModel | None:
    """Load the draft that a model's options name; None: they name none, or turn speculation off.

    Raise OrchardError("model_failed") with the reason if it can't be loaded, or doesn't have the model's tokens.
    """
    if (folder := options.draft) is None:
        return None
    draft = load(folder)
    tokens, own = draft.tokenizer.get_vocab(), model.tokenizer.get_vocab()
    reason = _difference(own, tokens)
    if not reason and draft.vocab_size <= max(own.values()):
        reason = f"its logits are for {draft.vocab_size:,} tokens, and the model has {max(own.values()) + 1:,}"
    if reason:
        message = f"the draft model in {folder} can't guess for this model: {reason}"
        raise OrchardError("model_failed", message)
    return draft


def _difference(own: Mapping[str, int], drafts: Mapping[str, int]) -> str:
    """Return how a draft's vocabulary differs from a model's; empty: it has all of the model's tokens."""
    for token, number in sorted(own.items(), key=lambda item: item[1]):
        found = drafts.get(token)
        if found != number:
            there = "missing there" if found is None else f"number {found:,} there"
            return f"it has another tokenizer: token {number:,} of the model, {token[:40]!r}, is {there}"
    return ""
