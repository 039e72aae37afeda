"""The tables of docs/configuration.md and the whole of examples/orchard.yaml, made from the table of settings.

`python -m tests.support.config_docs` writes both.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from orchard.cli.settings.table import TABLE, Setting, flag_of
from orchard.core.setting import GROUPS, Scope

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLE = ROOT / "examples" / "orchard.yaml"
_BLOCK = re.compile(r"(<!-- settings: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "| key | flag, variable | default | what it sets | other names |\n|---|---|---|---|---|\n"
_WHERE = {"server": "*of the server.* ", "all": "", "named": "*of a model.* ", "entry": "*of a model.* "}
_PLACEHOLDERS = {
    "SIZE": "8GB",
    "FOLDER": "path/to/folder",
    "FILE": "path/to/file",
    "NAME": "some-name",
    "KEY": "some-key",
    "HOST": "orchard.example.com",
    "ORIGIN": '"https://example.com"',
}
_TOP = """\
# Every setting of Orchard, for: orchard serve --config examples/orchard.yaml
#
# A line that begins with #key: is a setting that is not set. It shows the default, or an example if there is no fixed
# default. Remove the # to use it. Paths are relative to the folder in which Orchard is started.
# `orchard config check FILE` finds mistakes in a file. docs/configuration.md lists the flag, the environment variable
# and the other names of each setting, and the settings of other servers that are accepted but ignored.
#
# This file is generated: see tests/support/config_docs.py.

server:"""
_ALL = """
  # The settings from here on apply to all models. An entry of `models` can hold them too, and then overrides them.
"""
_MODELS = """
models:
  # The bundled model.
  - model_path: demo

"""


def with_tables(page: str) -> str:
    """Return the page with its tables as they should be."""
    return _BLOCK.sub(lambda found: found[1] + _HEAD + _rows(found[2]) + found[3], page)


def headings(page: str) -> list[str]:
    """Return the headings of the groups of settings that the page has tables of."""
    return [heading for _, heading, _ in _BLOCK.findall(page)]


def example() -> str:
    """Return a configuration file with every setting that has an effect."""
    about, _, rest = _block("named", "entry", indent=4).partition("    #model_path:")
    entry = about.replace("    #", "  #") + "  #- model_path:" + rest
    return _TOP + _block("server", indent=2) + _ALL + _block("all", indent=2) + _MODELS + entry


def _block(*scopes: Scope, indent: int) -> str:
    lines: list[str] = []
    for group, heading in GROUPS.items():
        settings = [setting for setting in TABLE if setting.group == group and setting.scope in scopes]
        if settings and group != "ignored":
            lines += ["", f"# --- {heading} ---"] if indent == 2 else []
            lines += [line for setting in settings for line in example_of(setting, 118 - indent)]
    return textwrap.indent("\n".join(lines), " " * indent) + "\n"


def example_of(setting: Setting, width: int) -> Iterator[str]:
    """Yield the lines of a setting in the example."""
    is_fixed = setting.default not in (None, (), {})
    is_said = is_fixed or setting.default_words == "none"
    text = _described(setting) if is_said else f"{_described(setting)} [default: {setting.default_words}]"
    yield from (f"# {line}" for line in textwrap.wrap(text, width))
    value = setting.default_words if is_fixed else setting.example or _PLACEHOLDERS[setting.kind.metavar]
    if not setting.example and setting.kind.shape is not str and not setting.kind.instead:
        value = f"[{value}]" if setting.kind.shape is list else f"{{some-name: {value}}}"
    yield f"#{setting.name}: {value}"


def _described(setting: Setting) -> str:
    choices = f" {setting.kind.words.capitalize()}." if setting.kind.metavar.startswith("[") else ""
    return setting.help + choices


def _rows(heading: str) -> str:
    return "".join(row(setting) + "\n" for setting in TABLE if GROUPS[setting.group] == heading)


def row(setting: Setting) -> str:
    """Return the row of a setting in the tables."""
    first, *others = setting.names
    places = "" if setting.only_in_file else f"`{flag_of(first)}`, `ORCHARD_{first.upper()}`"
    also = ", ".join(f"`{name}`" for name in (*others, *setting.variables) if name != setting.name)
    text = (_WHERE[setting.scope] + _described(setting)).replace("* allows", r"\* allows")
    return f"| `{setting.name}` | {places} | {setting.default_words} | {text} | {also} |"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
    EXAMPLE.write_text(example())
