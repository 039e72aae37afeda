"""How models are split among ranks, and which can't be; no weights are read to find out."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.backends.ranks.parallel import choose_backend, choose_parallel
from orchard.cluster.hostfile import ClusterHost, Hostfile
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.ranks.group import RankGroup

HEADS = {"num_hidden_layers": 3, "num_attention_heads": 12, "num_key_value_heads": 6, "head_dim": 8}
QWEN3 = {"model_type": "qwen3", **HEADS}
MOE = {"model_type": "qwen3_moe", **HEADS}
HYBRID = {"num_attention_heads": 4, "num_key_value_heads": 2, "linear_num_value_heads": 6, "linear_num_key_heads": 3}


def test_a_pipeline_comes_first_over_the_ring(tmp_path: Path) -> None:
    for config, expected in ((QWEN3, "tensor"), (MOE, "pipeline"), ({"model_type": "qwen3_5_moe"}, "pipeline")):
        (tmp_path / "config.json").write_text(json.dumps(config))
        assert choose_parallel(tmp_path, TextOptions(ranks=3), "ring") == expected
    (tmp_path / "config.json").write_text(json.dumps({**MOE, "num_hidden_layers": 1}))
    assert choose_parallel(tmp_path, TextOptions(ranks=2), "ring") == "tensor"
    (tmp_path / "config.json").write_text(json.dumps(MOE))
    assert choose_parallel(tmp_path, TextOptions(ranks=3, parallel="tensor"), "ring") == "tensor"


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        (QWEN3, {"ranks": 4}, "has no pipeline for the kind 'qwen3'; its heads .* num_key_value_heads is 6$"),
        (QWEN3, {"ranks": 5}, "num_attention_heads is 12, num_key_value_heads is 6$"),
        (QWEN3, {"ranks": 2, "parallel": "pipeline"}, "has no pipeline for the kind 'qwen3'$"),
        (MOE, {"ranks": 4}, "it has only 3 layers; its heads can't be divided"),
        # The heads of its vision model are not split.
        (
            {"model_type": "qwen3_5", "text_config": HYBRID, "vision_config": {"num_heads": 3}},
            {"ranks": 2, "parallel": "tensor"},
            "in its config.json linear_num_key_heads is 3$",
        ),
        ({"model_type": "gemma3_text"}, {"ranks": 2}, "can't split the layers of the kind 'gemma3_text'$"),
        ({"model_type": "nothing"}, {"ranks": 2}, "does not know its architecture"),
    ],
)
def test_a_model_that_cannot_be_split_says_why(
    tmp_path: Path, config: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(OrchardError, match=reason):
        choose_parallel(tmp_path, TextOptions(**options), "ring")


def test_tensors_come_first_where_exchanges_cost_little(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MOE))
    assert choose_parallel(tmp_path, TextOptions(ranks=3), "nccl") == "tensor"
    assert choose_parallel(tmp_path, TextOptions(ranks=2), "jaccl") == "tensor"
    (tmp_path / "config.json").write_text(json.dumps({**MOE, "num_attention_heads": 9}))
    assert choose_parallel(tmp_path, TextOptions(ranks=2), "jaccl") == "pipeline"


HERE, THERE = ClusterHost("127.0.0.1", ("10.0.0.1",)), ClusterHost("b", ("10.0.0.2",))
RDMA = (replace(HERE, rdma=(None, "rdma_en2")), replace(THERE, rdma=("rdma_en2", None)))


@pytest.mark.parametrize(
    ("options", "hosts", "named", "reason"),
    [
        ({"backend": "nccl"}, (HERE, THERE), "", "nccl .*only for the GPUs of one host"),
        ({}, (HERE, THERE), "nccl", "nccl .*only for the GPUs of one host"),
        ({"backend": "nccl"}, (HERE, HERE), "", "nccl .*MLX has none on this machine"),
        ({"backend": "jaccl"}, (HERE, THERE), "", "jaccl .*needs a hostfile .*`rdma`"),
        ({}, RDMA, "", "jaccl .*MLX has none on this machine"),
    ],
)
def test_a_backend_that_is_not_here_says_why(
    options: dict[str, Any], hosts: tuple[ClusterHost, ...], named: Any, reason: str
) -> None:
    with pytest.raises(OrchardError, match=reason):
        choose_backend(TextOptions(hosts="hosts.json", **options), Hostfile(hosts, named))


def test_the_ring_is_everywhere() -> None:
    assert choose_backend(TextOptions(ranks=2), Hostfile((HERE, HERE))) == "ring"
    assert choose_backend(TextOptions(hosts="hosts.json"), Hostfile((HERE, THERE))) == "ring"
    assert choose_backend(TextOptions(hosts="hosts.json", backend="ring"), Hostfile(RDMA, "nccl")) == "ring"


class OneProcess:
    """Stands for MLX's group."""

    def rank(self) -> int:
        return 0


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=6), st.integers(0, 100), st.integers(0, 2**41))
def test_layers_follow_memory(free_bytes: list[int], more: int, kept_bytes: int) -> None:
    group = RankGroup(cast(Any, OneProcess()), [], free_bytes)
    layers = len(free_bytes) + more
    split = group.split_layers(layers, kept_bytes)
    assert sum(split) == layers
    assert min(split) >= 1
    assert all(
        split[one] >= split[other] - 1
        for one, free in enumerate(free_bytes)
        for other, less in enumerate(free_bytes)
        if free >= less
    )


def test_layers_are_even_on_equal_hosts() -> None:
    assert RankGroup(cast(Any, OneProcess()), [], [2**34] * 3).split_layers(31, 2**30) == [11, 10, 10]
    assert RankGroup(cast(Any, OneProcess()), [], [3 * 2**34, 2**34]).split_layers(40, 0) == [30, 10]
