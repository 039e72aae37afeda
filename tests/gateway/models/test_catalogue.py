"""The table of models that are worth trying."""

import re
from collections import Counter

import pytest

from orchard.gateway.models import hub_cache
from orchard.gateway.models.catalogue import CATALOGUE, USES, best_models, find_repo
from orchard.gateway.models.sources import BUNDLED, REAL_MODEL


def test_every_row_has_an_id_and_names_of_its_own() -> None:
    assert all("/" in model.repo and hub_cache.is_repo_id(model.repo) for model in CATALOGUE)
    names = [name for model in CATALOGUE for name in model.names]
    assert max(Counter([*names, *BUNDLED, *(model.repo for model in CATALOGUE)]).values()) == 1
    assert all(re.fullmatch(r"[a-z0-9.-]+(:[a-z0-9.-]+)?", name) and not name.endswith(":latest") for name in names)
    assert REAL_MODEL in names
    assert all(":" not in model.names[0] for model in CATALOGUE)  # the name that is shown is no tag of Ollama


@pytest.mark.parametrize("name", ["llama3.2:3b", "LLAMA3.2:3B", "llama3.2", "llama3.2:latest", "Llama3.2-3b"])
def test_a_name_as_people_type_it(name: str) -> None:
    assert find_repo(name) == "mlx-community/Llama-3.2-3B-Instruct-4bit"


@pytest.mark.parametrize(
    "name",
    ["", "llama", "llama3.2:3b-instruct-q4_K_M", "demo", "org/llama3.2", "q" * 10**6, "mlx-community/Qwen3-4B-4bit"],
)
def test_a_name_that_is_not_in_the_table(name: str) -> None:
    assert find_repo(name) is None


def test_more_memory_never_means_a_smaller_model() -> None:
    for use in USES:
        sizes = [best_models(use, memory)[0].memory_gb[use] for memory in (4, 8, 16, 24, 32, 48, 64, 96, 512)]
        assert sizes == sorted(sizes)
        assert sizes[0] == 8
        assert all(model.memory_gb[use] <= 16 for model in best_models(use, 17.2))
    assert [model.names[0] for model in best_models("chat", 36)] == ["qwen3.8-27b", "gpt-oss-20b"]


@pytest.mark.parametrize(
    ("address", "repo"),
    [
        ("https://huggingface.co/mlx-community/Qwen3-4B-4bit", "mlx-community/Qwen3-4B-4bit"),
        ("https://huggingface.co/mlx-community/Qwen3-4B-4bit/tree/main", "mlx-community/Qwen3-4B-4bit"),
        ("hf.co/org/name-GGUF:Q4_K_M", "org/name-GGUF"),
        ("https://elsewhere.example/org/name", None),
        ("hf.co/org", None),
        ("hf.co/../name<b>", None),
    ],
)
def test_an_address_of_the_hub_stands_for_its_model(address: str, repo: str | None) -> None:
    assert find_repo(address) == repo
