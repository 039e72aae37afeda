"""How a field of a Struct is described as a setting: `Annotated[Positive, setting("limits", "What it does.")]`.

`orchard.cli.settings` derives the key in the file, flags, environment variables, checks, help and documentation from
such fields. `other_names` and `when_unset` beside `setting` add more.
"""

from typing import Annotated, Literal

from msgspec import Meta

GROUPS = {
    "models": "Models",
    "memory": "Models in memory",
    "server": "Server",
    "access": "API keys and web pages",
    "prompts": "Prompts and answers",
    "requests": "Defaults for requests",
    "concurrency": "Concurrency",
    "cache": "KV cache and prompt cache",
    "responses": "Stored responses",
    "media": "Media in requests",
    "limits": "Limits",
    "ignored": "Accepted but ignored",
}
"""The groups of settings and their headings, in the order of --help."""

Scope = Literal["server", "all", "named", "entry"]
"""Where a setting may be. "server": under `server`; "all": under `server`, for all models, or in an entry of `models`;
"named": in an entry, or as a flag for the single model of the command line; "entry": only in an entry."""


def setting(group: str, help: str, *, scope: Scope | None = None, zero_is_none: bool = False) -> Meta:
    """Describe a field. `scope` None: that of the Struct. `zero_is_none`: 0 may be written for None."""
    return Meta(description=help, extra={"group": group, "scope": scope, "zero_is_none": zero_is_none})


def other_names(*names: str, flag: str = "") -> Meta:
    """Give a setting more names: lower-case ones are valid everywhere, upper-case ones are environment variables.

    `flag`: its name in --help, if that is not the field's name.
    """
    return Meta(extra={"also": names, "flag": flag})


def when_unset(words: str = "", *, example: str = "") -> Meta:
    """Describe what happens without a setting that has no default, and give an example of a value, as in YAML."""
    return Meta(extra={"unset": words, "example": example})


def value_kind(kind: str) -> Meta:
    """Mark a type whose values are written and checked as `orchard.cli.settings.values.KINDS` says."""
    return Meta(extra={"kind": kind})


Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Size = Annotated[int, Meta(ge=0), value_kind("size")]
PositiveSize = Annotated[int, Meta(ge=1), value_kind("positive size")]
MemorySize = Annotated[int, Meta(ge=2**20), value_kind("memory size")]
Name = Annotated[str, value_kind("name")]
Names = Annotated[tuple[str, ...], value_kind("names")]
Folder = Annotated[str, value_kind("folder")]
ExistingFolder = Annotated[str, value_kind("existing folder")]
EmbeddingsTruncate = Annotated[
    bool,
    setting(
        "requests",
        "Cut off the end of a text to embed that is longer than the model can read, instead of failing. A request's "
        "`truncate` overrides it.",
    ),
]
QueueSize = Annotated[
    Positive,
    setting(
        "concurrency",
        "The most requests that may wait for a model; further ones are rejected, unless their caller has less than "
        "its share. Speech and transcription models have fixed limits.",
    ),
]
