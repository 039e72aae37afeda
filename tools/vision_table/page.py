"""The generated parts of docs/vision-models.md, which are between markers."""

import re
from collections.abc import Sequence
from pathlib import Path

from orchard.engine.batching.batch import BatchMode
from tools.vision_table.architectures import Architecture
from tools.vision_table.trial import Trial

PAGE = Path(__file__).parents[2] / "docs" / "vision-models.md"
Row = tuple[Architecture, Trial | None]

_NAMES = {"image": "images", "audio": "audio", "video": "video"}
_SHARED = {
    BatchMode.SHARED: "yes",
    BatchMode.BY_LENGTH: "rows of equal length",
    BatchMode.SEQUENTIAL: "no, they take turns",
    None: "not known",
}
_HEAD = "| architecture | rows share a pass | takes | tested |\n|---|---|---|---|\n"
_BLOCK = re.compile(r"(<!-- {} -->\n).*?(<!-- end -->)".replace("{}", r"(media|text|other)"), re.DOTALL)


def with_table(page: str, rows: Sequence[Row]) -> str:
    """Return the page with what belongs between its markers."""
    made = {
        "media": _HEAD + "".join(_line(*row) for row in rows if row[0].kind == "media"),
        "text": ", ".join(f"`{one.name}`" for one, _ in rows if one.kind == "text") + "\n",
        "other": "".join(_reason(why, rows) for why in sorted({one.why for one, _ in rows if one.kind == "other"})),
    }
    return _BLOCK.sub(lambda found: found[1] + made[found[2]] + found[3], page)


def named(page: str) -> set[str]:
    """Return the architectures that the page names between its markers."""
    return {name for found in _BLOCK.finditer(page) for name in re.findall(r"(?:^\| |, |: |^)`(\w+)`", found[0], re.M)}


def _line(architecture: Architecture, trial: Trial | None) -> str:
    assert trial is not None
    takes = ", ".join(_NAMES[kind] for kind in architecture.takes if kind not in trial.refused) or "texts only"
    return f"| `{architecture.name}` | {_SHARED[trial.mode]} | {takes} | {_tested(trial)} |\n"


def _tested(trial: Trial) -> str:
    if trial.mode is None:
        return f"no: {_code(trial.why)}"
    tested = ", ".join(["rows", *(_NAMES[kind] for kind in trial.read)])
    return f"{tested}. {'. '.join(map(_plain, trial.why.split('; ')))}" if trial.why else tested


_REASONS = {
    r"(image|audio|video): (.*)": r"Of \1: \2",
    r".*GroupedArrays|.*scaled_dot_product_attention": "It computes attention in a way of its own",
    r".*AttentionView": "Its layers read other layers' caches",
    r"Unbatchable: (\w+)": r"Its cache is a `\1`",
    r"in pieces its logits change by (\S+), they spread by (\S+)": "Read in pieces, a prompt's logits change by "
    r"\1 where they spread by \2",
    r"its logits change by (\S+), and their standard deviation is (\S+)": "Shared, its logits change by "
    r"\1 where they spread by \2",
}


def _plain(why: str) -> str:
    """Return what an error against a mode means, or the error."""
    found = ((re.match(pattern, why), words) for pattern, words in _REASONS.items())
    return next((match.expand(words) for match, words in found if match), _code(why))


def _code(text: str) -> str:
    return "`" + text.replace("`", "'").replace("|", "/") + "`"


def _reason(why: str, rows: Sequence[Row]) -> str:
    found = ", ".join(f"`{one.name}`" for one, _ in rows if one.kind == "other" and one.why == why)
    return f"- {why}: {found}\n"
