"""Loads the model that guesses next tokens: a draft model, an MTP head from another folder, or the model's own head."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orchard import folder_files
from orchard.backends.model_folder import LoadedModel
from orchard.backends.text.model import TextModel, load
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.drafting.head import PredictionHead

_WITH_HEADS = ("qwen3_5", "qwen3_next")  # prefixes of the model types whose heads are known


def load_draft(path: str, model: LoadedModel, options: TextOptions) -> TextModel | PredictionHead | None:
    """Load the draft that the options name, or else the MTP head in the model's own folder, `path`.

    Return None if there is neither, or speculation is off. Raise OrchardError("model_failed") with the reason if a
    named draft can't be loaded, doesn't have the model's tokens, or doesn't fit the model.
    """
    if options.speculation == "off":
        return None
    if (folder := options.draft) is None:
        return _own_head(path, model)
    return _drafter(folder, model) if _model_type(folder).endswith("_mtp") else _draft_model(folder, model)


def _own_head(path: str, model: LoadedModel) -> PredictionHead | None:
    if not _model_type(path).startswith(_WITH_HEADS):
        return None
    from orchard.backends.text import mtp

    return mtp.own_head(model, Path(path))


def _drafter(folder: str, model: LoadedModel) -> PredictionHead:
    from orchard.backends.text import mtp  # it imports mlx-vlm, which most text models don't need

    if not (kind := _model_type(folder)).startswith(_WITH_HEADS):
        raise OrchardError("model_failed", f"the drafter in {folder} is of the kind {kind!r}, which is not served")
    with _blaming("drafter"):
        return mtp.load_head(model, Path(folder))


@contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Begin the messages of errors with `what` can't be used."""
    try:
        yield
    except OrchardError as error:
        raise OrchardError(error.kind, f"its {what} can't be used: {error.message}") from error


def _model_type(folder: str) -> str:
    """Return the `model_type` in a folder's configuration; "" if it can't be read."""
    try:
        config = folder_files.read_json(Path(folder, "config.json"))
    except (OSError, ValueError):
        return ""
    return str(config.get("model_type")) if isinstance(config, dict) else ""


def _draft_model(folder: str, model: LoadedModel) -> TextModel:
    with _blaming("draft model"):
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
    """Return how a draft's vocabulary differs from a model's; "" if it has all of the model's tokens."""
    for token, number in sorted(own.items(), key=lambda item: item[1]):
        found = drafts.get(token)
        if found != number:
            there = "missing there" if found is None else f"number {found:,} there"
            return f"it has another tokenizer: token {number:,} of the model, {token[:40]!r}, is {there}"
    return ""
