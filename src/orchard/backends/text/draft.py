"""Loads the model that guesses next tokens: a draft model, an MTP head from another folder, or the model's own head."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orchard import folder_files
from orchard.backends.model_folder import LoadedModel
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.drafting.head import PredictionHead

_HEAD_MODEL_TYPES = ("qwen3_5", "qwen3_next")  # prefixes of the model types whose heads are known


def load_draft(path: str, model: LoadedModel, options: TextOptions) -> TextModel | PredictionHead | None:
    """Load the draft that the options name, or else the MTP head in the model's own folder, `path`.

    Return None if there is neither, or speculation is off. Raise OrchardError("model_failed") with the reason if a
    named draft can't be loaded, doesn't have the model's tokens, or doesn't fit the model.
    """
    if not options.speculates:
        return None
    if (folder := options.draft) is None:
        return _load_own_head(path, model)
    load = _load_drafter if _read_model_type(folder).endswith("_mtp") else _load_draft_model
    return load(folder, model)


def _load_own_head(path: str, model: LoadedModel) -> PredictionHead | None:
    if not _read_model_type(path).startswith(_HEAD_MODEL_TYPES):
        return None
    from orchard.backends.text import mtp

    return mtp.load_own_head(model, Path(path))


def _load_drafter(folder: str, model: LoadedModel) -> PredictionHead:
    from orchard.backends.text import mtp  # it imports mlx-vlm, which most text models don't need

    if not (kind := _read_model_type(folder)).startswith(_HEAD_MODEL_TYPES):
        raise OrchardError("model_failed", f"the drafter in {folder} is of the kind {kind!r}, which is not served")
    with _name_in_errors("drafter"):
        return mtp.load_head(model, Path(folder))


@contextmanager
def _name_in_errors(subject: str) -> Iterator[None]:
    """Say in the messages of errors what can't be used: `subject`."""
    try:
        yield
    except OrchardError as error:
        raise OrchardError(error.kind, f"its {subject} can't be used: {error.message}") from error


def _read_model_type(folder: str) -> str:
    """Return the `model_type` in a folder's configuration; "" if it can't be read."""
    try:
        config = folder_files.read_json(Path(folder, "config.json"))
    except (OSError, ValueError):
        return ""
    return str(config.get("model_type")) if isinstance(config, dict) else ""


def _load_draft_model(folder: str, model: LoadedModel) -> TextModel:
    with _name_in_errors("draft model"):
        draft = load_text_model(folder)
    draft_tokens, model_tokens = draft.tokenizer.get_vocab(), model.tokenizer.get_vocab()
    reason = _vocabulary_difference(model_tokens, draft_tokens)
    if not reason and draft.vocab_size <= max(model_tokens.values()):
        reason = f"its logits are for {draft.vocab_size:,} tokens, and the model has {max(model_tokens.values()) + 1:,}"
    if reason:
        message = f"the draft model in {folder} can't guess for this model: {reason}"
        raise OrchardError("model_failed", message)
    return draft


def _vocabulary_difference(model_tokens: Mapping[str, int], draft_tokens: Mapping[str, int]) -> str:
    """Return how a draft's vocabulary differs from a model's; "" if it has all of the model's tokens."""
    for token, number in sorted(model_tokens.items(), key=lambda item: item[1]):
        draft_number = draft_tokens.get(token)
        if draft_number != number:
            difference = "missing there" if draft_number is None else f"number {draft_number:,} there"
            return f"it has another tokenizer: token {number:,} of the model, {token[:40]!r}, is {difference}"
    return ""
