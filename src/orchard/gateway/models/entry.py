"""A model that can be served, as the registry describes it."""

import functools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from orchard import folder_files
from orchard.cluster.hostfile import read_hostfile
from orchard.config import ModelSettings, Settings, options_of
from orchard.core.media import MediaPart, unreadable_error
from orchard.core.model_config import Capability, capabilities
from orchard.core.request import LoadOptions, Task
from orchard.core.tasks.speak import Speak, SpeechOptions
from orchard.core.tasks.text_options import TextOptions
from orchard.core.tasks.transcribe import TranscribeOptions
from orchard.gateway.models import sources
from orchard.gateway.models.model_files import ModelFiles, read_chat_template
from orchard.kinds import KINDS, Backend, kind_by_name


class ModelEntry(Struct, frozen=True):
    """A model that can be served: its name in the APIs, its folder, and its context window in tokens (None: unknown).

    `path` empty: it must be downloaded first (`Registry.fetch`). `repo`, `revision`: its id and revision on the
    Hugging Face Hub. `configured`: the configuration or the command line names it. `base`: the id of the model without
    the adapter. `voices`: those of a speech model. `ttl`: seconds without a request after which it
    is unloaded. `size_bytes`: the size of its weights; `kept_bytes`: of those that are never quantised. `created`: when
    its files were made, in seconds since the epoch. `architecture`, `quantization`, `parameters`: see `ModelFiles`.
    """

    id: str
    path: str
    context_window: int | None
    kind: str = "text"
    aliases: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    voices: tuple[str, ...] = ()
    size_bytes: int = 0
    kept_bytes: int = 0
    options: LoadOptions = TextOptions()
    base: str | None = None
    configured: bool = False
    on_demand: bool = False
    pinned: bool = False
    ttl: float | None = None
    repo: str | None = None
    revision: str | None = None
    created: int = 0
    architecture: str = ""
    quantization: str = ""
    parameters: int = 0

    @property
    def is_bundled(self) -> bool:
        """Whether it is one of the models that come with Orchard."""
        return any(self.path == source.folder for source in sources.BUNDLED.values())

    @property
    def folder(self) -> str | None:
        """Its folder with links followed, so that the same files have one folder; None: not on this machine."""
        return os.path.realpath(self.path) if self.path else None

    @property
    def adapter(self) -> str | None:
        """The name of its LoRA adapter: its name in the configuration, or its folder's."""
        if self.base is not None:
            return self.id.removeprefix(f"{self.base}:")
        return Path(self.text.adapter_path).name if self.text.adapter_path else None

    @property
    def voice_names(self) -> tuple[str, ...]:
        """The names of a speech model's voices: those of its files, and more that the setting gives."""
        named = self.options.voices if isinstance(self.options, SpeechOptions) else {}
        return tuple(dict.fromkeys([*self.voices, *named]))

    @property
    def second_model(self) -> str | None:
        """The model that its process also loads: a draft model or a diarizer."""
        return self.options.diarizer if isinstance(self.options, TranscribeOptions) else self.text.draft

    def with_second_model(self, folder: str, size_bytes: int) -> "ModelEntry":
        """Return an entry with the folder and the size of the model that its process also loads."""
        name = "diarizer" if isinstance(self.options, TranscribeOptions) else "draft_model_path"
        options = structs.replace(self.options, **{name: folder})
        return structs.replace(self, options=options, size_bytes=self.size_bytes + size_bytes)

    @property
    def text(self) -> TextOptions:
        """Its options as a text model; the defaults if it is not one."""
        return self.options if isinstance(self.options, TextOptions) else TextOptions()

    @property
    def backend(self) -> Backend:
        """What runs it."""
        return KINDS[self.kind].backend

    @property
    def tasks(self) -> tuple[type[Task], ...]:
        """The tasks that it serves."""
        return self.backend.tasks_with(self.options)

    @property
    def chat_template(self) -> str:
        """Its chat template; empty if it has none. This reads files."""
        if self.text.chat_template_file:
            return _read_template(self.text.chat_template_file)
        try:
            return read_chat_template(self.path, folder_files.list_names(self.path)) if self.path else ""
        except (OSError, ValueError):
            return ""

    @property
    def generation_config(self) -> dict[str, Any]:
        """Its generation_config.json; empty if it has none. This reads a file."""
        try:
            found = folder_files.read_json(Path(self.path, "generation_config.json")) if self.path else {}
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def serves(self, task: type[Task]) -> bool:
        """Return whether it can do a task."""
        return task in self.tasks

    def check_task(self, task: type[Task]) -> None:
        """Raise OrchardError if it can't do a task."""
        self.backend.check_task(self.id, task, self.options)

    def check_media(self, parts: Iterable[MediaPart]) -> None:
        """Raise OrchardError if, according to its files, it can't read one of the media."""
        if self.kind in ("text", "embeddings") and self.path:
            for part in parts:
                if part.kind != "document":
                    raise unreadable_error(part)


def with_files(entry: ModelEntry, path: str, files: ModelFiles, settings: ModelSettings | Settings) -> ModelEntry:
    """Return an entry with the facts from a model's files, and with the settings' options for its kind.

    Raise ValueError if it has an adapter, but models of its kind can't have one.
    """
    windows = [window for window in (files.context_window, entry.text.context_length) if window]
    able = files.capabilities
    if entry.text.chat_template_file:
        able = capabilities(files.kind, _read_template(entry.text.chat_template_file))
    given = settings.model_type if isinstance(settings, ModelSettings) else None
    kind = kind_by_name(given) if given else files.kind
    backend, options = KINDS[kind].backend, entry.options
    if not isinstance(options, backend.options):  # the entry has the options of text models
        if entry.text.adapter_path:
            raise ValueError(f"models of the kind '{kind}' take no `adapters` and no `adapter_path`")
        if entry.text.draft_model_path:
            raise ValueError(f"models of the kind '{kind}' take no `draft_model_path`")
        if entry.text.is_split:
            raise ValueError(f"models of the kind '{kind}' take no `{'hosts' if entry.text.hosts else 'ranks'}`")
        options = options_of(settings, backend.options)
    elif entry.text.hosts:
        hostfile = read_hostfile(entry.text.hosts)
        ranks = len(hostfile.hosts)
        options = structs.replace(entry.text, local_share=hostfile.local_ranks / ranks, rank_share=1 / ranks)
    elif entry.text.is_split:
        options = structs.replace(entry.text, rank_share=1 / entry.text.ranks)
    ears = options_of(settings, TranscribeOptions)
    if isinstance(ears, TranscribeOptions) and ears.diarizer and not isinstance(options, TranscribeOptions):
        raise ValueError(f"models of the kind '{kind}' take no `diarizer`")
    return structs.replace(
        entry,
        path=path,
        kind=kind,
        options=options,
        context_window=min(windows, default=None),
        capabilities=able,
        voices=files.voices if Speak in backend.tasks else (),
        size_bytes=files.size_bytes,
        kept_bytes=files.kept_bytes,
        created=files.created,
        architecture=files.architecture,
        quantization=files.quantization,
        parameters=files.parameters,
    )


@functools.lru_cache(maxsize=64)
def _read_template(path: str) -> str:
    try:
        return folder_files.read_file(Path(path).expanduser()).decode(errors="replace")
    except (OSError, ValueError, RuntimeError):  # the worker reports this when it loads the model
        return ""
