"""docs/migrating.md says of every flag and variable of other servers whether it is known here."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard.cli.settings.table import settings_by_name, settings_by_variable

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
NO_SETTINGS = {"config"}  # a flag of the command itself
FLAGS = {
    "mlx-openai-server": """
        config model-path model-type context-length served-model-name port host queue-timeout queue-size quantize
        config-name lora-paths lora-scales disable-auto-resize log-file no-log-file log-level enable-auto-tool-choice
        tool-call-parser reasoning-parser trust-remote-code chat-template-file debug prompt-cache-size max-bytes
        prompt-cache-dir draft-model-path num-draft-tokens kv-bits kv-group-size quantized-kv-start decode-concurrency
        prompt-concurrency prefill-step-size disable-batching max-tokens temperature top-p top-k min-p
        repetition-penalty presence-penalty xtc-probability xtc-threshold seed repetition-context-size
    """,
    "mlx_lm.server": """
        model adapter-path host port allowed-origins draft-model num-draft-tokens trust-remote-code log-level
        chat-template use-default-chat-template temp top-p top-k min-p max-tokens chat-template-args decode-concurrency
        prompt-concurrency prefill-step-size prompt-cache-size prompt-cache-bytes kv-bits kv-group-size
        quantized-kv-start pipeline
    """,
    "mlx_vlm.server": """
        host port trust-remote-code model image-model tts-model stt-model embedding-model decision-model reranker-model
        model-dir adapter-path vision-cache-size min-pixels max-pixels prefill-step-size log-progress-interval
        max-tokens enable-thinking thinking-budget thinking-start-token thinking-end-token kv-bits kv-key-bits
        kv-value-bits kv-key-scheme kv-value-scheme kv-quant-scheme kv-group-size max-kv-size quantized-kv-start
        expert-cache-gb draft-model draft-kind draft-block-size max-num-seqs top-logprobs-k api-key reload log-level
    """,
}
"""Of mlx-openai-server 1.8.1, mlx-lm 0.32.2 and mlx-vlm 0.7.10."""


def rows(server: str) -> Iterator[tuple[str, str]]:
    """Each row of a server's table: what is there, and what is here."""
    yield from re.findall(r"^\| (.+?) \| (.+) \|$", SECTIONS[f"From {server}"].replace("|---|---|", ""), re.MULTILINE)


def flags(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--([a-z][a-z-]*[a-z])", text))


def known(flag: str) -> bool:
    name = flag.replace("-", "_")
    return flag in NO_SETTINGS or name in settings_by_name() or name.removeprefix("no_") in settings_by_name()


@pytest.mark.parametrize("server", FLAGS)
def test_every_flag_of_another_server_is_told_of_truly(server: str) -> None:
    told: dict[str, bool] = {}
    for there, here in rows(server):
        told |= dict.fromkeys(flags(there), "not known" not in here)
    assert told.keys() == set(FLAGS[server].split())
    assert {flag: known(flag) for flag in told} == told


@pytest.mark.parametrize("server", FLAGS)
def test_variables_that_are_the_same_are_known(server: str) -> None:
    for there, here in rows(server):
        for variable in re.findall(r"`([A-Z][A-Z_]+)`", there):
            if here.startswith(("the same", "no effect")):
                assert variable in settings_by_variable()
            elif here.startswith("not known"):
                assert variable not in settings_by_variable()


@pytest.mark.parametrize("section", SECTIONS)
def test_what_is_named_as_ours_is_known(section: str) -> None:
    ours = (
        SECTIONS[section] if "purpose" in section else " ".join(here for _, here in rows(section.removeprefix("From ")))
    )
    named = flags(ours) | {name.removeprefix("ORCHARD_").lower() for name in re.findall(r"ORCHARD_[A-Z_]+", ours)}
    assert [flag for flag in named if not known(flag)] == []
