"""The law of names: they can be grepped, and they are nouns and verbs."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import orchard

SOURCE = Path(orchard.__file__).parent
MOST_FILES = 3
# What registries agree on: how each dialect reads its body, and the start of a process.
AGREED = {"parse", "Body", "main"}
# One-word names that end like participles: verbs, and a word of JSON Schema.
WORDS = {"embed", "feed", "need", "proceed", "required", "seed", "shed"}
# Participles, pronouns and adverbs.
OTHER_WORDS = re.compile(
    r"""
    [a-z]+ed|begun|broken|built|chosen|done|drawn|driven|fed|found|given|gone|grown|held|hidden|kept|known|left|lost|made
    |meant|met|paid|said|seen|sent|shown|sold|sought|spelt|spent|spoken|stood|taken|thought|told|torn|understood|woken|won
    |written
    |all|another|any|both|each|every|it|none|one|others?|own|same|some|that|these|this|those|what|which|who|whole
    |about|above|after|again|ahead|alike|alone|apart|around|at|away|back|before|behind|beside|between|beyond|else|elsewhere
    |even|here|now|off|once|only|over|past|since|so|then|there|through|together|under|until|up|upon|within|without
    """,
    re.VERBOSE,
)


def functions_and_classes() -> Iterator[tuple[str, ast.AST]]:
    """The files, below the package, and what is defined in them."""
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text())
        place = str(file.relative_to(SOURCE))
        if not place.startswith("demo/"):
            yield place, tree


def test_a_name_is_defined_in_few_files() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for place, tree in functions_and_classes():
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                places[node.name].append(place)
    many = {name: files for name, files in places.items() if len(files) > MOST_FILES and name not in AGREED}
    assert many == {}
    assert all(len(places[name]) > MOST_FILES for name in AGREED), "an agreement is no longer needed"


def test_names_are_nouns_and_verbs() -> None:
    found = [
        f"{place}: {node.name}"
        for place, tree in functions_and_classes()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_noun_or_verb(node.name)
    ]
    assert found == []


def is_noun_or_verb(name: str) -> bool:
    """Whether a name of one word is none of the words that say nothing alone; longer names are not looked at."""
    word = name.strip("_")
    return name.startswith("__") or word in WORDS or not OTHER_WORDS.fullmatch(word)
