"""Which models exist: those that the configuration names, and those that are found on this machine.

The registry finds the bundled demo, the MLX models of the local Hugging Face cache, the sub-folders of `model_dir`, and
imported models. The next request sees changes on disk. A name from a client is never used as a path, except for
sub-folders that are in a listing. These may be links to other places.
"""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, structs

from orchard.config import ModelSettings, Settings
from orchard.core.errors import OrchardError
from orchard.core.request import Adapter
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.crash_reason import hide_folders
from orchard.gateway.models import catalogue, gguf, hub_cache, sources, subfolders
from orchard.gateway.models.download import Downloads
from orchard.gateway.models.entry import ModelEntry, with_files
from orchard.gateway.models.model_files import NO_MODEL, FolderReader, ModelFiles
from orchard.gateway.models.names import check_adapter, check_name, lenient_spellings, list_names, unknown_name_message
from orchard.kinds import TEXT, Backend

_DEFAULTS = Settings()
# Searching all models for names to suggest may take at most this share of the time.
_LOOKING_SHARE = 0.05
_NOT_CACHED = "it is not in the local Hugging Face cache"
_FALLBACK_ADVICE = "; start the server with `--fallback-model NAME` to have one model answer for all unknown names"


class _ConfiguredModel(Struct):
    """A model that the configuration names: `given` is its configured entry, `entry` the latest one.

    `settings` are the model's own. It has each of `further_names` if no other model has it. `adapter_names` are the
    spellings of its adapter's path.
    """

    given: ModelEntry
    entry: ModelEntry
    source: sources.ModelSource | None = None
    settings: ModelSettings | None = None
    further_names: tuple[str, ...] = ()
    adapter_names: tuple[str, ...] = ()


class Registry:
    """A server's models, by the names that clients use. It is thread-safe."""

    def __init__(self, entries: Sequence[ModelEntry] = (), settings: Settings = _DEFAULTS) -> None:
        """Make a registry of these models, which finds no others."""
        self._settings = settings
        self._finds = False
        self._model_dir = os.path.expanduser(settings.model_dir or "")
        self._folders = FolderReader()
        self.downloads = Downloads()
        """The running downloads. The next download of a model keeps its complete files."""
        self._configured: dict[str, _ConfiguredModel] = {}
        self._names: dict[str, str] = {}  # every name of a configured model, and its id
        self._shown: list[str] = []
        self.refused: dict[str, str] = {}
        """Why folders and cached models can't be served, by the names that they would have, at the last look."""
        self._look_again = 0.0
        for entry in entries:
            self._add_model(_ConfiguredModel(entry, entry))

    @classmethod
    def from_settings(cls, settings: Settings) -> "Registry":
        """Return a registry of the settings' models, which also finds others. Raise OrchardError if one is wrong."""
        registry = cls((), settings)
        registry._finds = True
        for model in settings.models:
            registry._configure(model)
        for configured in registry._configured.values():
            for name in configured.further_names:
                registry._names.setdefault(name, configured.entry.id)
        if settings.fallback_model is not None:
            registry.find(settings.fallback_model)
        registry.list_models()  # read all files before the first request
        return registry

    def list_models(self) -> list[ModelEntry]:
        """Return every model, the configured ones first."""
        configured = [self._refresh_entry(one) for one in self._configured.values()]
        folders = {entry.folder for entry in configured}
        found: dict[str, ModelEntry] = {}
        refused: dict[str, str] = {}
        for source in self._all_sources():
            if source.name not in self._names and source.name not in found:
                entry = self._unconfigured_model(source)
                if entry and entry.folder not in folders:
                    found[source.name] = entry
                elif not entry and (reason := self._refusal_reason(source)):
                    refused.setdefault(source.name, reason)
        self.refused = {name: reason for name, reason in refused.items() if name not in found}
        entries = [*configured, *found.values()]
        self._shown = [name for entry in entries for name in (entry.id, *entry.aliases)]
        return entries

    def configured_models(self) -> list[ModelEntry]:
        """Return the models that the configuration names, with the latest facts from their files."""
        return [one.entry for one in self._configured.values()]

    @property
    def first_backend(self) -> Backend:
        """The backend that is probably needed first: that of the first model that is loaded at startup."""
        entries = sorted(self.configured_models(), key=lambda entry: entry.on_demand)
        return entries[0].backend if entries else TEXT

    def find(self, name: str, adapter: Adapter | None = None) -> ModelEntry:
        """Return the model for requests with this name and adapter, which may have to be downloaded.

        Raise OrchardError: model_not_found, or invalid_request if the model has no such adapter.
        """
        entry = self._local_model(name) or self._chat_model(name) or self._similar_model(name)
        entry = entry or self._hub_model(name) or self._fallback_model(name)
        if adapter is not None:
            entry = self._adapter_variant(entry, adapter)
        return entry

    def find_exact(self, name: str) -> ModelEntry:
        """Return the model with this name, never the fallback; it may have to be downloaded. Raise OrchardError."""
        entry = self._local_model(name) or self._similar_model(name) or self._hub_model(name)
        if entry is None:
            raise self._not_found(name)
        return entry

    def find_local(self, name: str) -> ModelEntry:
        """Return the configured or local model of this name, else the fallback. Raise OrchardError."""
        return self._local_model(name) or self._similar_model(name) or self._fallback_model(name)

    async def fetch(self, entry: ModelEntry) -> ModelEntry:
        """Download a model, and return its new entry. Raise OrchardError if that fails.

        Callers that fetch the same model share one download, which continues if one of them gives up.
        """
        assert entry.repo
        await self.downloads.fetch(entry.repo, entry.revision)
        try:
            files = self._read_source(sources.ModelSource(entry.id, repo=entry.repo, revision=entry.revision))
            one = self._configured.get(entry.id)
            described = with_files(one.given, *files, one.settings or self._settings) if one else entry
        except ValueError as error:
            reason = hide_folders(str(error))
            message = f"'{entry.repo}' was downloaded, but is not a model that can be served: {reason}"
            raise OrchardError("model_failed", message) from None
        second = described.second_model
        if second and (repo := sources.source_of(second).repo) and hub_cache.repo_folder(repo) is None:
            await self.downloads.fetch(repo, None)
        return self.find(entry.id)

    def _add_model(self, configured: _ConfiguredModel) -> None:
        entry = configured.entry
        for name in dict.fromkeys((entry.id, *entry.aliases)):
            if name in self._names:
                message = f"two models of the configuration are called '{name}': give one of them another name"
                raise OrchardError("invalid_request", message)
            self._names[name] = entry.id
        self._configured[entry.id] = configured

    def _configure(self, model: ModelSettings) -> None:
        """Add a model that the settings name, alone and with each of its adapters."""
        source = sources.source_of(model.model_path, model.revision)
        bare = ModelEntry(
            check_name(model.served_model_name or source.name),
            "",
            None,
            aliases=tuple(map(check_name, model.aliases)),
            options=_with_adapter(model.text, model.text.adapter_path),
            configured=True,
            on_demand=model.on_demand,
            pinned=model.pinned,
            ttl=self._settings.ttl if model.ttl is None else model.ttl,
            repo=source.repo,
            revision=source.revision,
        )
        names = sources.further_names(model.model_path, source)
        own = model.text.adapter_path
        found = [_ConfiguredModel(bare, bare, source, model, names, sources.path_spellings(own) if own else ())]
        for name, folder in model.adapters.items():
            adapted = structs.replace(
                bare,
                id=check_name(f"{bare.id}:{name}"),
                aliases=(),
                options=_with_adapter(model.text, check_adapter(bare.id, name, folder)),
                base=bare.id,
                on_demand=True,
                pinned=False,
            )
            found.append(
                _ConfiguredModel(adapted, adapted, source, model, adapter_names=sources.path_spellings(folder))
            )
        for configured in found:
            if not self._may_download(source.repo):
                self._check_configured(configured, source)
            self._add_model(configured)

    def _check_configured(self, configured: _ConfiguredModel, source: sources.ModelSource) -> None:
        """Raise OrchardError("model_not_found") if a configured model is missing or can't be served."""
        try:
            configured.entry = self._describe_entry(configured.given, source, configured.settings)
        except ValueError as error:
            repo = source.repo
            advice = f"; 'orchard pull {repo}' fetches it" if repo and hub_cache.repo_folder(repo) is None else ""
            message = f"model '{configured.entry.id}' can't be served: {error}{advice}"
            raise OrchardError("model_not_found", message) from None

    def _refresh_entry(self, configured: _ConfiguredModel) -> ModelEntry:
        """Return a configured model with the current facts from its files."""
        if source := configured.source:
            try:
                configured.entry = self._describe_entry(configured.given, source, configured.settings)
            except ValueError:
                # Loading it reports what is wrong, unless it can be downloaded.
                if self._may_download(source.repo):
                    return structs.replace(configured.entry, path="")
        return configured.entry

    def _describe_entry(
        self, entry: ModelEntry, source: sources.ModelSource, settings: ModelSettings | None = None
    ) -> ModelEntry:
        """Return an entry with the facts from a model's files; `settings` are the model's own.

        Raise ValueError with the reason if the files are wrong.
        """
        return self._with_second_model(with_files(entry, *self._read_source(source), settings or self._settings))

    def _with_second_model(self, entry: ModelEntry) -> ModelEntry:
        """Return an entry with the folder and the size of its draft model or diarizer, if it uses one.

        Raise ValueError if that model is not on this machine.
        """
        if (name := entry.second_model) is None:
            return entry
        try:
            folder, files = self._read_source(sources.source_of(name))
        except (OrchardError, ValueError) as error:
            what = "draft model" if entry.text.draft else "diarizer"
            raise ValueError(f"its {what} '{name}' can't be found: {error}") from None
        return entry.with_second_model(folder, files.size_bytes)

    def _chat_model(self, name: str) -> ModelEntry | None:
        """Return the chat model of the setting `realtime`'s entry of this name."""
        voices = self._settings.realtime.get(name)
        return self._local_model(voices.chat) if voices else None

    def _local_model(self, name: str) -> ModelEntry | None:
        """Return a configured model, or one on this machine, by its id or alias."""
        if (owner := self._names.get(name.rstrip("/") or name)) is not None:
            return self._refresh_entry(self._configured[owner])
        if not self._finds:
            return None
        if name in sources.BUNDLED:
            return self._unconfigured_model(sources.BUNDLED[name])
        for source in self._possible_sources(name):
            if found := self._unconfigured_model(source):
                # Prefer a configured model in the same folder, so that it isn't loaded twice with different options.
                same = (one for one in self._configured.values() if one.entry.folder == found.folder)
                return next((self._refresh_entry(one) for one in same if one.entry.base is None), found)
        return None

    def _similar_model(self, name: str) -> ModelEntry | None:
        """Return the only model that has the name in another spelling, of those that the last `list_models` found.

        If there is none, return the model on this machine that the name is short for.
        """
        meant = lenient_spellings(name)
        known = {*self._names, *self._shown, *(sources.BUNDLED if self._finds else ())}
        entries = filter(None, (self._local_model(one) for one in known if one.casefold() in meant))
        found = {entry.id: entry for entry in entries}
        if not found and (repo := catalogue.find_repo(name)):
            return self._local_model(repo)
        return next(iter(found.values())) if len(found) == 1 else None

    def _hub_model(self, name: str) -> ModelEntry | None:
        """Return the entry of a model that must be downloaded; None if that is not allowed."""
        repo = catalogue.find_repo(name) or name
        if "/" not in repo or not self._may_download(repo):
            return None
        return self._bare_entry(sources.ModelSource(repo, repo=repo))

    def _fallback_model(self, name: str) -> ModelEntry:
        """Return the model that answers for unknown names. Raise OrchardError("model_not_found")."""
        fallback = self._settings.fallback_model
        if fallback is None or name == fallback:
            raise self._not_found(name, "; fallback_model names it" if fallback else _FALLBACK_ADVICE)
        return self.find(fallback)

    def _may_download(self, repo: str | None) -> bool:
        return repo is not None and self._settings.allow_download and hub_cache.is_repo_id(repo)

    def _unconfigured_model(self, source: sources.ModelSource) -> ModelEntry | None:
        """Return a model that is not configured; None if it can't be served."""
        try:
            source.name.encode()  # it must fit into JSON
            return self._describe_entry(self._bare_entry(source), source)
        except ValueError:
            return None

    def _refusal_reason(self, source: sources.ModelSource) -> str | None:
        """Return why a model that is not configured can't be served; None if it can, or if there is none."""
        try:
            source.name.encode()
            self._read_source(source)
        except UnicodeEncodeError:  # nobody can ask for it
            return None
        except ValueError as error:
            return None if str(error) in (NO_MODEL, _NOT_CACHED) else hide_folders(str(error))
        return None

    def _possible_sources(self, name: str) -> Iterator[sources.ModelSource]:
        """Yield where a model may be that is not configured."""
        if repo := hub_cache.repo_folder(name):
            yield sources.ModelSource(name, repo, name)
        for root in self._roots():
            if folder := subfolders.find_subfolder(root, name):
                yield sources.ModelSource(name, folder)

    def _bare_entry(self, source: sources.ModelSource) -> ModelEntry:
        """Return a model that is not configured, without the facts from its files."""
        return ModelEntry(source.name, "", None, options=self._settings.text, ttl=self._settings.ttl, repo=source.repo)

    def _read_source(self, source: sources.ModelSource) -> tuple[str, ModelFiles]:
        """Return a model's folder and the facts in its files. Raise ValueError if it can't be served."""
        folders: Iterable[str] = [source.folder] if source.folder else []
        if source.repo:
            repo = source.folder or hub_cache.repo_folder(source.repo)
            folders = hub_cache.snapshot_folders(repo, source.revision) if repo else []
        reasons = []
        for folder in folders:
            try:
                return folder, self._folders.read(folder)
            except ValueError as error:
                reasons.append(str(error))
        raise ValueError(reasons[0] if reasons else _NOT_CACHED)

    def _all_sources(self) -> Iterator[sources.ModelSource]:
        """Yield folders that may be models. If several have the same name, the first one counts."""
        if self._finds:
            yield sources.BUNDLED[sources.DEMO]
            for repo, folder in hub_cache.list_repos():
                yield sources.ModelSource(repo, folder, repo)
            for root in self._roots():
                for name in subfolders.model_folders(root):
                    yield sources.ModelSource(name, os.path.join(root, name))

    def _roots(self) -> tuple[str, str]:
        """Return the folders whose sub-folders are models."""
        return self._model_dir, gguf.imported_root()

    def _adapter_variant(self, entry: ModelEntry, adapter: Adapter) -> ModelEntry:
        base = entry.base or entry.id
        variants = [one for one in self._configured.values() if base in (one.entry.base, one.entry.id)]
        for one in variants:
            if adapter.name.rstrip("/") in (one.given.adapter, *one.adapter_names):
                return self._refresh_entry(one)
        allowed = [one.entry.adapter for one in variants if one.entry.adapter]
        message = f"model '{base}' has no adapter '{adapter.name}'; "
        message += f"it has {list_names(allowed)}" if allowed else "its configuration names none as `adapters`"
        raise OrchardError("invalid_request", message, param=adapter.param)

    def _not_found(self, name: str, advice: str = "") -> OrchardError:
        if (began := time.monotonic()) >= self._look_again:
            self.list_models()
            self._look_again = time.monotonic() + (time.monotonic() - began) / _LOOKING_SHARE
        bundled = (one for one in sources.BUNDLED if self._finds and one not in self._shown)
        message = unknown_name_message(name, [*self._shown, *bundled])
        reasons = map(self._refusal_reason, self._possible_sources(name) if self._finds else ())
        if reason := gguf.GGUF if gguf.is_gguf([name]) else next(filter(None, reasons), None):
            message = f"model '{name}' can't be served: {reason}"
        elif repo := catalogue.find_repo(name):
            message += f"; '{name}' is short for '{repo}', which 'orchard pull {repo}' downloads"
        elif "/" in name and hub_cache.is_repo_id(name):
            message += f"; 'orchard pull {name}' downloads it, if the Hugging Face Hub has it"
        return OrchardError("model_not_found", message + advice, param="model")


def resolve_model(name: str) -> ModelEntry:
    """Return the model that a user names: a bundled model, a folder, or an id in the local Hugging Face cache.

    Nothing is downloaded. Raise OrchardError("model_not_found") with a sentence that says what to do.
    """
    registry = Registry()
    registry._configure(ModelSettings(model_path=name))
    (entry,) = registry.configured_models()
    return entry


def _with_adapter(options: TextOptions, path: str | None) -> TextOptions:
    """Return options with an adapter. Raise OrchardError if another option can't be combined with one."""
    try:
        return structs.replace(options, adapter_path=str(Path(path).expanduser())) if path else options
    except ValueError as error:
        raise OrchardError("invalid_request", str(error)) from None
