"""The tables of docs/configuration.md, made of the table of settings.

`python -m tests.support.config_docs` writes them anew.
"""

import re
from pathlib import Path

from orchard.cli.settings.table import TABLE, Setting

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
_BLOCK = re.compile(r"(<!-- settings: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD = "| key | flag, variable | without it | what it sets | also known as |\n|---|---|---|---|---|\n"
_WHERE = {"server": "*of the server.* ", "all": "", "named": "*of a model.* ", "entry": "*of a model.* "}


def with_tables(page: str) -> str:
    """Give the page with its tables as they should be."""
    return _BLOCK.sub(lambda found: found[1] + _HEAD + _rows(found[2]) + found[3], page)


def groups(page: str) -> list[str]:
    """Give the groups of settings that the page has tables of."""
    return [group for _, group, _ in _BLOCK.findall(page)]


def _rows(group: str) -> str:
    return "".join(_row(setting) + "\n" for setting in TABLE if setting.group == group)


def _row(setting: Setting) -> str:
    places = ""
    if setting.scope != "entry":
        first = setting.names[0]
        places = f"`--{first.replace('_', '-')}`, `ORCHARD_{first.upper()}`"
    others = [name for name in setting.synonyms if name != setting.name] + list(setting.environment)
    also = ", ".join(f"`{name}`" for name in others)
    text = _WHERE[setting.scope] + setting.help
    if setting.kind.metavar.startswith("["):
        text += f" {setting.kind.words.capitalize()}."
    return f"| `{setting.name}` | {places} | {setting.default_words} | {text} | {also} |".replace("*lets", r"\*lets")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
