"""What the bundled model says of Orchard is so: its commands, options, paths and pages exist; none is missing."""

import re
from pathlib import Path
from random import Random

import httpx
import pytest
from orchard.cli.app import app
from orchard.config import Settings
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.routes.app import create_app
from orchard.gateway.routes.table import ROUTES
from typer.core import TyperGroup
from typer.main import get_command

from demo_model.skills import facts, refuse

ROOT = Path(__file__).parents[3]
ANSWERS = [answer for answer, _ in facts.FACT_LIST]
SPOKEN = "\n".join(ANSWERS)


def commands() -> set[str]:
    """All commands, and those of their groups as two words."""
    top = get_command(app)
    assert isinstance(top, TyperGroup)
    found = set(top.commands)
    for name, command in top.commands.items():
        found |= {f"{name} {inner}" for inner in getattr(command, "commands", {})}
    return found


def answer_paths() -> list[list[str]]:
    """The paths that generate answers, also those of WebSockets, for each API."""
    groups = [(group.prefixes[0], group.answers) for group in ROUTES if group.answers]
    return [[end if end.startswith(prefix) else prefix + end for end in ends] for prefix, ends in groups]


async def get(path: str) -> httpx.Response:
    """What the server answers, without any process behind it."""
    settings = Settings(responses_path=":memory:")
    site = create_app(Pool(Registry((), settings), settings), settings)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(site), base_url="http://127.0.0.1") as client:
        return await client.get(path)


def test_the_commands_it_names_exist_and_none_is_missing() -> None:
    aliases = {"launch", "chat"}  # of serve and run
    known = commands() | aliases
    named = [spoken.split() for spoken in re.findall(r"`orchard ([^`]*)`", SPOKEN)]
    plain = [words for words in named if not words[0].startswith("-")]
    assert {words[0] for words in plain} == {command.split()[0] for command in known}
    assert {" ".join(words[:2]) for words in plain} >= {command for command in known if " " in command}
    listed = next(answer for answer in ANSWERS if answer.startswith("`orchard --help`"))
    assert all(command in listed for command in known - aliases if " " not in command)


def test_the_options_it_names_exist() -> None:
    described = (ROOT / "docs/configuration.md").read_text()
    for flag in re.findall(r"--[a-z-]+", SPOKEN):
        assert f"`{flag}`" in described or flag in ("--help", "--config"), flag


async def test_the_paths_it_names_exist() -> None:
    known = {
        *(await get("/openapi.json")).json()["paths"],
        "/docs",
        *(path for paths in answer_paths() for path in paths),
    }
    named = {path.rstrip(".,;") for path in re.findall(r"(?<![\w./])/(?:[a-z][\w/]*)", SPOKEN)} - {"/openai"}
    assert named > {"/v1/chat/completions", "/v1/messages", "/health", "/metrics", "/v1/images/edits"}
    assert named <= known, named - known
    assert (await get("/docs")).status_code == 200


def test_it_names_a_path_of_every_api() -> None:
    apis = [
        paths for paths in answer_paths() if paths not in (["/v1/score"], ["/v2/rerank"])
    ]  # other forms of reranking
    assert len(apis) > 8
    for paths in (*apis, ["/openai"]):
        assert any(path in SPOKEN for path in paths), paths


def test_the_pages_it_names_exist() -> None:
    pages = set(re.findall(r"(?:docs|examples)/[\w-]+\.\w+", SPOKEN))
    assert len(pages) > 4
    assert all((ROOT / page).is_file() for page in pages), pages


def test_it_knows_that_nothing_is_published_yet() -> None:
    (install,) = [answer for answer in ANSWERS if "uv tool install" in answer]
    assert "make serve" in install
    assert "first release" in install
    assert not [answer for answer in ANSWERS if "pip install" in answer]


def test_it_knows_all_that_does_not_work_yet() -> None:
    listed, tried = re.findall(
        r"^What does not work yet: (.+?)\. (.+)$", (ROOT / "README.md").read_text(), re.MULTILINE
    )[0]
    items = re.split(r"; |, such as |, | and ", listed)
    assert len(items) > 3
    for item in items:
        named = [answer for answer in ANSWERS if item.removeprefix("OpenAI's ") in answer]
        assert any(re.search(r"\bnot\b|n't\b|\bno\b", answer) for answer in named), item
    assert "random weights" in tried
    assert "random weights" in SPOKEN


def test_no_answer_says_yes_or_no_to_several_questions() -> None:
    assert not [answer for answer in ANSWERS if re.match(r"(?:Yes|No)\b", answer)]


def test_the_names_of_models_stand_in_questions() -> None:
    rng = Random(9)
    for verb, command in (("download", "orchard pull"), ("run", "orchard serve")):
        asks = next(
            asks
            for answer, asks in facts.FACT_LIST
            if f"`{command}" in answer and any(f"{verb} {{m}}" in ask for ask in asks)
        )
        made = [facts.asked(rng, "train", asks) for _ in range(3000)]
        assert any("mlx-community/" in ask for ask in made)
        assert not [ask for ask in made if "{" in ask]


@pytest.mark.parametrize(("answer", "asks"), facts.FACT_LIST, ids=[answer[:30] for answer in ANSWERS])
def test_each_fact_is_asked_in_many_ways(answer: str, asks: list[str]) -> None:
    rng = Random(5)
    assert len({facts.asked(rng, "train", asks).lower() for _ in range(400)}) >= 25
    assert sum(ask.startswith("~") for ask in asks) >= 2
    assert len(answer) < 170


def test_no_question_has_two_answers() -> None:
    rng = Random(6)
    seen: dict[str, str] = {}
    for _ in range(6000):
        made = facts.make(rng, "seen")
        ask = made.messages[0]["content"].lower().rstrip("?.! ")
        answer = made.messages[1]["content"]
        assert seen.setdefault(ask, answer) == answer, ask


def test_a_frame_is_filled() -> None:
    ((answer, asks),) = facts.read("It does.\nhow: do it\n~Does it?\nReally?")
    assert answer == "It does."
    assert asks[-2:] == ["~Does it?", "Really?"]
    assert len(asks) == 2 + len(facts.FRAMES["how"])
    assert all("do it" in ask for ask in asks[:-2])


def test_what_is_asked_of_other_things_is_no_question_about_orchard() -> None:
    rng = Random(8)
    known = {facts.make(rng, "seen").messages[0]["content"].lower().rstrip("?.! ") for _ in range(12000)}
    near = [refuse.near(rng) for _ in range(3000)]
    assert not {ask.lower().rstrip("?.! ") for ask in near} & known
    assert not [ask for ask in near if "{" in ask or "[" in ask]
