"""A configuration file: YAML with a `server` block and a list of `models`. Every mistake is found, with its line."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml
from msgspec import Struct
from yaml.composer import ComposerError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from orchard.cli.settings.layers import FileLayers, Layer, Mistakes, PlacedValue, put_value, suggest_name
from orchard.cli.settings.report import inner_structs
from orchard.cli.settings.table import TABLE, settings_by_name
from orchard.cli.settings.values import Raw
from orchard.config import ModelSettings
from orchard.core.setting import Scope

_MOST_BYTES = 256 * 1024
_DEEPEST = 6
_BLOCKS = ("server", "models")
# The tags of plain values; any other tag was written explicitly.
_TAGS = {f"tag:yaml.org,2002:{tag}" for tag in ("str", "int", "float", "bool", "null", "timestamp", "value", "merge")}
_NULL = "tag:yaml.org,2002:null"


class _Loader(yaml.SafeLoader):
    """A loader for plain data. It rejects deep nesting, and aliases, which can expand a small file to a large one."""

    _depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """Compose one node and its children."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            problem = "aliases are not allowed: put what all models share under `server`"
            raise ComposerError(None, None, problem, event.start_mark)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ComposerError(None, None, f"it is nested deeper than {_DEEPEST} levels", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def read_config_file(path: Path) -> tuple[FileLayers, list[str]]:
    """Return what a file sets, and the mistakes in it. Raise Mistakes if it can't be read or is not YAML."""
    root = _root_node(path)
    mistakes: list[str] = []
    file = FileLayers({}, [])
    if root is None:
        return file, mistakes
    if not isinstance(root, MappingNode):
        raise Mistakes([f"{path}:1: the file must be a mapping with the keys `server` and `models`"])
    for key, where, node in _mapping_items(root, path, mistakes):
        if key == "server":
            file.server.update(_read_block(node, path, where, ("server", "all"), mistakes))
        elif key == "models":
            file.models.extend(_read_models(node, path, where, mistakes))
        else:
            mistakes.append(f"{where}: {_explain_unknown_key(key, ())}")
    return file, mistakes


def write_model(model: ModelSettings) -> str:
    """Return a configuration file with one model, which has these settings."""
    owners: dict[type[Struct], Struct] = {type(owner): owner for owner in inner_structs(model)}
    values = {}
    for setting in TABLE:
        owner = next((owners[home] for home in setting.homes if home in owners), None)
        if owner is not None and (value := getattr(owner, setting.name)) != setting.default:
            values[setting.name] = msgspec.to_builtins(value)
    return yaml.safe_dump({"models": [values]}, allow_unicode=True)


def _root_node(path: Path) -> Node | None:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise Mistakes([f"{path}: can't be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise Mistakes([f"{path}:{data[: error.start].count(10) + 1}: is not text in UTF-8"]) from None
    if len(data) > _MOST_BYTES:
        raise Mistakes([f"{path}: is larger than {_MOST_BYTES // 1024} KiB"])
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        is_tab = mark is not None and text[mark.index : mark.index + 1] == "\t"
        problem = "tabs can't indent lines: use spaces" if is_tab else error.problem or error.context
        raise Mistakes([f"{path}:{mark.line + 1 if mark else 1}: {problem}"]) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise Mistakes([f"{path}:{line}: contains a character that YAML does not allow"]) from None


def _read_models(node: Node, path: Path, where: str, mistakes: list[str]) -> Iterator[Layer]:
    if _is_null(node):
        return
    if not isinstance(node, SequenceNode):
        mistakes.append(f"{where}: must be a list of models, each beginning with `- model_path:`")
        return
    for entry in node.value:
        place = f"{path}:{entry.start_mark.line + 1}: models"
        wrong = len(mistakes)
        if not isinstance(entry, MappingNode) and not _is_null(entry):
            mistakes.append(f"{place}: each model must begin with `- model_path:`")
            continue
        layer = _read_block(entry, path, place, ("entry", "named", "all"), mistakes)
        if "model_path" in layer:
            yield layer
        elif len(mistakes) == wrong:
            mistakes.append(f"{place}: a model needs a `model_path`")


def _read_block(node: Node, path: Path, where: str, scopes: tuple[Scope, ...], mistakes: list[str]) -> Layer:
    """Read a mapping of settings; settings of other scopes are mistakes."""
    layer: Layer = {}
    if _is_null(node):
        return layer
    if not isinstance(node, MappingNode):
        mistakes.append(f"{where}: must be a mapping of settings to values")
        return layer
    for key, place, value in _mapping_items(node, path, mistakes):
        setting = settings_by_name().get(key)
        if setting is None or setting.scope not in scopes:
            mistakes.append(f"{place}: {_explain_unknown_key(key, scopes)}")
        elif not _is_null(value):
            try:
                put_value(layer, setting, PlacedValue(setting.kind.read(_raw_value(value)), place), mistakes)
            except ValueError as error:
                mistakes.append(f"{place}: {error}")
    return layer


def _mapping_items(node: MappingNode, path: Path, mistakes: list[str]) -> Iterator[tuple[str, str, Node]]:
    """Yield the keys of a mapping, their places and their values."""
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, ScalarNode):
            mistakes.append(f"{path}:{line}: a key must be text, not a list or a mapping")
        elif key.value in seen:
            mistakes.append(f"{path}:{line}: {key.value}: is given twice, first in line {seen[key.value]}")
        else:
            seen[key.value] = line
            yield key.value, f"{path}:{line}: {key.value}", value


def _explain_unknown_key(key: str, scopes: tuple[Scope, ...]) -> str:
    """Return what is wrong with a key that does not belong here; `scopes` is () at the top of the file."""
    if setting := settings_by_name().get(key):
        return "belongs under `server`" if setting.scope in ("server", "all") else "belongs to one of `models`"
    if key in _BLOCKS:
        return "belongs at the top of the file"
    known = [name for name, setting in settings_by_name().items() if setting.scope in scopes] if scopes else _BLOCKS
    return f"is not a setting{suggest_name(key, known)}"


def _raw_value(node: Node) -> Raw:
    """Return a node's value as text. Raise ValueError if no setting can have such a value."""
    if isinstance(node, MappingNode):
        return {_scalar_text(key): _entry_value(value) for key, value in node.value}
    return _plain_value(node)


def _entry_value(node: Node) -> str | list[str] | dict[str, str]:
    if isinstance(node, MappingNode):
        return {_scalar_text(key): _scalar_text(value) for key, value in node.value}
    return _plain_value(node)


def _plain_value(node: Node) -> str | list[str]:
    return [_scalar_text(item) for item in node.value] if isinstance(node, SequenceNode) else _scalar_text(node)


def _scalar_text(node: Node) -> str:
    if not isinstance(node, ScalarNode) or _is_null(node):
        raise ValueError("must contain only plain values")
    if node.tag not in _TAGS:
        raise ValueError(f"must be a plain value, without the tag {node.tag}")
    return str(node.value)


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.tag == _NULL
