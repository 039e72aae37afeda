"""What is found out of a model before it serves, what is remembered of it, and what is not believed."""

import os
import time
from importlib.metadata import PackageNotFoundError
from itertools import product
from pathlib import Path
from typing import Any

import mlx.core as mx
import msgspec
import pytest
from mlx import nn
from mlx_lm.models.base import create_attention_mask
from mlx_lm.models.cache import ChunkedKVCache, KVCache, RotatingKVCache
from msgspec.structs import replace

import orchard.engine
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration
from orchard.engine.batching.batch import BatchMode, VerifyMode
from orchard.engine.calibration import Calibration
from orchard.engine.sampling import logprobs
from tests.engine.batching.test_batch import InLists
from tests.support.engine_driver import greedy, store_calibration
from tests.support.tiny_models import Other, network, run
from tests.support.units import finish, warm_runner

KNOWN = Calibration(
    BatchMode.BY_LENGTH,
    batched_prefill=True,
    chunk=128,
    tokens_per_second=1e3,
    measured_at=time.time(),
    in_pieces=True,
    draws_from_prompt=True,
)
QUANTIZED: dict[str, Any] = {"kv_bits": 8, "kv_group_size": 32}


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2", "qwen3_next", "qwen3_moe"])
@pytest.mark.parametrize("options", [{}, QUANTIZED, {**QUANTIZED, "quantized_kv_start": 5}], ids=str)
def test_rows_of_mlx_lms_models_share_all_passes(kind: str, options: dict[str, Any]) -> None:
    assert finish(calibration.find_batch_mode(network(kind), TextOptions(**options))) is BatchMode.SHARED


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("gpt_oss", BatchMode.SHARED),
        ("gemma3n", BatchMode.SHARED),  # layers that read another layer's cache
        ("gemma4_text", BatchMode.SHARED),
        ("mamba", BatchMode.SHARED),  # it asks for the class of its cache
        ("deepseek_v32", BatchMode.BY_LENGTH),  # it looks into its cache
        ("gemma2", BatchMode.SEQUENTIAL),  # attention of its own
    ],
)
def test_how_far_peculiar_models_share_passes(kind: str, mode: BatchMode, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert finish(calibration.find_batch_mode(network(kind), TextOptions())) is mode
    assert not any("\n" in record.message or "argument types" in record.message for record in caplog.records)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("gemma2", "the model's own attention can't read a quantised KV cache"),
        ("gemma4_text", "the model's own attention can't read a quantised KV cache"),
        ("deepseek_v32", "the model's own attention can't read a quantised KV cache"),
        ("mamba", "none of the model's layers keeps all tokens"),
    ],
)
def test_models_that_can_not_read_quantised_keys_do_without(
    kind: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    model, options = Other(network(kind)), TextOptions(**QUANTIZED)
    model.fingerprint = f"{kind} without quantised keys"
    assert calibration.check_kv_bits(model, options) == replace(options, kv_bits=None)
    assert f"--kv-bits 8 has no effect, the KV cache is not quantised: {why}" in caplog.text
    assert "argument types" not in caplog.text
    store_calibration(model, replace(options, kv_bits=None))  # it is tried only whether the model runs
    warm_runner(model, options, 0, lambda: None)


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "gpt_oss", "gemma3n"])
def test_models_that_read_quantised_keys_share_passes_as_before(kind: str) -> None:
    options = TextOptions(**QUANTIZED)
    assert calibration.check_kv_bits(network(kind), options) is options
    assert finish(calibration.find_batch_mode(network(kind), options)) is BatchMode.SHARED


@pytest.mark.parametrize(
    ("kind", "verifying"),
    [
        *((kind, VerifyMode.TOGETHER) for kind in ("qwen3", "gemma3_text", "lfm2", "qwen3_next", "qwen3_moe")),
        ("gpt_oss", VerifyMode.TOGETHER),
        ("gemma3n", VerifyMode.TOGETHER),
        ("gemma4_text", VerifyMode.TOGETHER),
        ("mamba", VerifyMode.ALONE),  # its states know nothing of padding
        ("deepseek_v32", VerifyMode.TOGETHER),
        ("gemma2", VerifyMode.ALONE),
    ],
)
def test_which_rows_verify(kind: str, verifying: VerifyMode) -> None:
    model, options = network(kind), TextOptions()
    assert (
        finish(calibration.find_verify_mode(model, options, finish(calibration.find_batch_mode(model, options))))
        is verifying
    )


def test_a_model_whose_rows_can_not_take_tokens_back() -> None:
    model = Other(network("qwen3"), lambda: [ChunkedKVCache(64), KVCache()])
    assert finish(calibration.find_verify_mode(model, TextOptions(), BatchMode.SEQUENTIAL)) is VerifyMode.NEVER


@pytest.mark.parametrize("options", [QUANTIZED, {**QUANTIZED, "quantized_kv_start": 5}], ids=str)
def test_rows_with_quantised_keys_verify_together(options: dict[str, Any]) -> None:
    found = finish(calibration.find_verify_mode(network("qwen3"), TextOptions(**options), BatchMode.SHARED))
    assert found is VerifyMode.TOGETHER


def test_caches_in_lists() -> None:
    assert finish(calibration.find_batch_mode(InLists(), TextOptions())) is BatchMode.SHARED


def test_a_cache_of_an_unknown_kind() -> None:
    model = network("qwen3")
    assert (
        finish(calibration.find_batch_mode(Other(model, lambda: [ChunkedKVCache(64), KVCache()]), TextOptions()))
        is BatchMode.SEQUENTIAL
    )


class Peculiar:
    """One layer of attention, in the manner of a model that mlx-lm may come to have.

    `masked`: it looks at the mask that its cache gives. `own`: with its own attention, which knows nothing of `Parts`.
    """

    vocab_size, eos_token_ids, fingerprint = 50, frozenset[int](), "peculiar"

    def __init__(self, masked: bool, own: bool) -> None:
        mx.random.seed(0)
        self._masked, self._own = masked, own
        self._embed, self._head = nn.Embedding(50, 32), nn.Linear(32, 50)
        self._projections = [nn.Linear(32, 32) for _ in range(3)]
        self._rope = nn.RoPE(32)
        self._embed.weight = self._embed.weight * 4

    def new_cache(self) -> list[Any]:
        return [KVCache()]

    def forward(self, tokens: mx.array, cache: list[Any], **_: Any) -> mx.array:
        hidden = self._embed(tokens)
        one_mask = create_attention_mask(hidden, cache[0])
        queries, keys, values = (projection(hidden)[:, None] for projection in self._projections)
        queries, keys = self._rope(queries, offset=cache[0].offset), self._rope(keys, offset=cache[0].offset)
        keys, values = cache[0].update_and_fetch(keys, values)
        mask = one_mask if self._masked or tokens.shape[1] > 1 else None
        attend = mx.fast.scaled_dot_product_attention if self._own else _through_the_module
        attended: mx.array = attend(queries, keys, values, scale=32**-0.5, mask=mask)
        logits: mx.array = self._head(hidden + attended[:, 0])
        return logits

    logits_at = None

    def drop_all(self) -> None:
        """Nothing is kept."""

    def hidden_states(self, tokens: mx.array, cache: list[Any], **_: Any) -> mx.array:
        raise AssertionError("nobody asks for hidden states")


def _through_the_module(queries: mx.array, keys: Any, values: Any, scale: float, mask: Any) -> mx.array:
    from orchard.engine.batching.attention import attend

    return attend(queries, keys, values, None, scale=scale, mask=mask)


@pytest.mark.parametrize(
    ("masked", "own", "expected"),
    [
        (True, False, BatchMode.SHARED),
        (True, True, BatchMode.BY_LENGTH),
        (False, False, BatchMode.SEQUENTIAL),
        (False, True, BatchMode.SEQUENTIAL),
    ],
)
def test_a_peculiar_attention(masked: bool, own: bool, expected: BatchMode) -> None:
    assert finish(calibration.find_batch_mode(Peculiar(masked, own), TextOptions())) is expected


class Sensitive(Peculiar):
    """In bfloat16, with logits that make much of rounding, which isn't the same for several rows as for one."""

    fingerprint = "sensitive"

    def __init__(self, masked: bool) -> None:
        super().__init__(masked, own=False)
        for part in (self._embed, self._head, *self._projections):
            part.set_dtype(mx.bfloat16)
        self._projections[2].weight = self._projections[2].weight * 4

    def forward(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        logits = super().forward(tokens, cache, **given).astype(mx.float32)
        rounded = (logits * (1.0025 if len(tokens) > 1 else 1)).astype(mx.bfloat16)
        return mx.sin(40 * rounded)


@pytest.mark.parametrize(("masked", "expected"), [(True, BatchMode.SHARED), (False, BatchMode.SEQUENTIAL)])
def test_a_model_says_itself_what_rounding_does_to_it(
    masked: bool, expected: BatchMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert finish(calibration.find_batch_mode(Sensitive(masked), TextOptions())) is expected
    monkeypatch.setattr(calibration, "_MAX_TOLERANCE", calibration._TOLERANCE)
    assert finish(calibration.find_batch_mode(Sensitive(masked), TextOptions())) is BatchMode.SEQUENTIAL


class BothWays(Peculiar):
    """Of a prompt that is read in one pass, each token sees all others."""

    fingerprint = "both ways"

    def __init__(self) -> None:
        super().__init__(masked=False, own=False)
        self.passes: list[int] = []
        for projection in self._projections:
            projection.weight = projection.weight * 3

    def forward(self, tokens: mx.array, cache: list[Any], **_: Any) -> mx.array:
        self.passes.append(tokens.shape[1])
        hidden = self._embed(tokens)
        for layer in cache:
            queries, keys, values = (projection(hidden)[:, None] for projection in self._projections)
            queries, keys = (self._rope(one, offset=layer.offset) for one in (queries, keys))
            keys, values = layer.update_and_fetch(keys, values)
            hidden = hidden + _through_the_module(queries, keys, values, 32**-0.5, None)[:, 0]
        logits: mx.array = self._head(hidden)
        return logits

    logits_at = None

    def drop_all(self) -> None:
        """Nothing is kept."""

    def hidden_states(self, tokens: mx.array, cache: list[Any], **_: Any) -> mx.array:
        raise AssertionError("nobody asks for hidden states")

    def new_cache(self) -> list[Any]:
        return [KVCache(), KVCache()]


def test_a_model_whose_prompts_must_be_read_whole() -> None:
    assert not calibration.reads_in_pieces(BothWays(), TextOptions())


@pytest.mark.parametrize("kind", ["qwen3", "gemma3_text", "lfm2", "qwen3_moe", "gpt_oss", "gemma3n", "mamba", "gemma2"])
@pytest.mark.parametrize("options", [{}, {"max_kv_size": 8}], ids=str)
def test_models_whose_prompts_may_be_read_in_pieces(kind: str, options: dict[str, Any]) -> None:
    assert calibration.reads_in_pieces(network(kind), TextOptions(**options))


def test_a_model_that_fails_on_the_second_piece() -> None:
    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if tokens.shape[1] == 9:
            raise RuntimeError("no halves")

    assert not calibration.reads_in_pieces(Other(network("qwen3"), before=before), TextOptions())


@pytest.mark.parametrize(
    ("kind", "options"),
    [*product(["qwen3", "gemma3_text", "qwen3_moe", "gpt_oss", "gemma3n"], [{}, QUANTIZED]), ("gemma2", {})],
    ids=str,
)
def test_models_whose_first_tokens_are_drawn_from_the_prompt(kind: str, options: dict[str, Any]) -> None:
    assert calibration.draws_from_prompt(network(kind), TextOptions(**options))


@pytest.mark.parametrize("kind", ["lfm2", "qwen3_next", "mamba"])
def test_models_that_can_not_go_back_by_one_token(kind: str) -> None:
    assert not calibration.draws_from_prompt(network(kind), TextOptions())


def test_rings_that_keep_the_first_tokens() -> None:
    model = Other(network("qwen3"), lambda: [RotatingKVCache(8, keep=4) for _ in network("qwen3").new_cache()])
    model.logits_at = network("qwen3").logits_at
    assert not calibration.draws_from_prompt(model, TextOptions())


def test_logits_of_another_place() -> None:
    model = Other(network("qwen3"))
    assert not calibration.draws_from_prompt(model, TextOptions())

    def before_the_last(tokens: mx.array, cache: list[Any], places: mx.array) -> mx.array:
        return model.forward(tokens, cache)[:, -2]

    model.logits_at = before_the_last
    assert not calibration.draws_from_prompt(model, TextOptions())


def test_prompts_are_read_whole_and_not_cached(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logprobs, "_MOST_LOGITS", 500)
    model = BothWays()
    options = TextOptions(prefill_step_size=9, prompt_cache_bytes=2**24)
    for _ in range(2):  # the second time by what is stored
        caplog.clear()
        runner = warm_runner(model, options, 0, lambda: None)
        assert "prompts are prefilled whole and not cached" in caplog.text
        for job, count in (("first", None), ("again", None), ("scored", 0)):
            model.passes.clear()
            run(runner, [greedy(job, [number % 50 for number in range(60)], 2, prompt_logprobs=count)])
            assert model.passes[0] == 59


def test_a_model_that_takes_one_row_only() -> None:
    def before(tokens: mx.array, given: dict[str, Any]) -> None:
        if tokens.shape[0] > 1:
            raise RuntimeError("one at a time")

    assert (
        finish(calibration.find_batch_mode(Other(network("qwen3"), before=before), TextOptions()))
        is BatchMode.SEQUENTIAL
    )


def test_keys_that_can_not_be_quantised_so() -> None:
    for start in (0, 1000):
        given = TextOptions(kv_bits=8, kv_group_size=64, quantized_kv_start=start)  # a head is 32 wide
        with pytest.raises(OrchardError, match="groups of 64"):
            calibration.check_kv_bits(network("qwen3"), given)


def test_a_piece_of_a_prompt_is_a_power_of_two() -> None:
    tokens, rate = finish(calibration.measure_prefill(network("qwen3")))
    assert rate > 0
    assert 32 <= tokens <= 1024
    assert tokens.bit_count() == 1


@pytest.mark.parametrize(
    ("kind", "device", "seconds", "expected"),
    [
        ("qwen3", mx.gpu, 1.9, True),
        ("qwen3", mx.gpu, 2.0, False),  # it is busy with one
        ("qwen3", mx.cpu, 1.9, False),
        ("gemma3_text", mx.gpu, 1.9, False),  # a window takes one token a row
    ],
)
def test_several_prompts_share_a_pass_where_a_gpu_gains_from_it(
    kind: str, device: mx.DeviceType, seconds: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mx, "default_device", lambda: device)
    monkeypatch.setattr(calibration, "_prefill_seconds", lambda model, count, rows=1: seconds if rows == 4 else 1.0)
    assert calibration.gains_from_batched_prefill(network(kind), TextOptions()) is expected


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORCHARD_CACHE_DIR", str(tmp_path / "new"))
    return tmp_path / "new" / "models"


def test_what_is_remembered_is_recalled(folder: Path) -> None:
    assert calibration.load_calibration("a") is None
    calibration.save_calibration("a", KNOWN)
    calibration.save_calibration("b", replace(KNOWN, chunk=64))
    assert (calibration.load_calibration("a"), calibration.load_calibration("c")) == (KNOWN, None)
    calibration.save_calibration("a", replace(KNOWN, batched_prefill=False))
    assert calibration.load_calibration("a") == replace(KNOWN, batched_prefill=False)
    assert {file.name for file in folder.iterdir()} == {"a.json", "b.json"}


def changed(**fields: object) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(KNOWN) | fields)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b"\xff",
        msgspec.json.encode(KNOWN)[:-1],
        changed(chunk=0),
        changed(tokens_per_second=-1),
        changed(batch_mode="all at once"),
        changed(more=1),
        changed(more="x" * 10_000),
    ],
)
def test_what_is_wrong_is_not_believed(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "a.json").write_bytes(content)
    assert calibration.load_calibration("a") is None
    calibration.save_calibration("a", KNOWN)
    assert calibration.load_calibration("a") == KNOWN


@pytest.mark.parametrize(("age", "old"), [(0, False), (23 * 3600, False), (25 * 3600, True), (-3600, True)])
def test_speeds_are_believed_for_a_day(folder: Path, age: float, old: bool) -> None:
    """What a model can do is believed for as long as its name is the same."""
    known = msgspec.structs.replace(KNOWN, measured_at=time.time() - age)
    calibration.save_calibration("a", known)
    assert calibration.load_calibration("a") == known
    assert known.speeds_are_old is old


def test_a_folder_that_can_not_be(folder: Path) -> None:
    folder.parent.write_text("a file")
    calibration.save_calibration("a", KNOWN)
    assert calibration.load_calibration("a") is None


def test_the_oldest_are_forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_MOST_FILES", 3)
    for age, name in enumerate("edcba"):
        calibration.save_calibration(name, KNOWN)
        os.utime(folder / f"{name}.json", (1e9 + age, 1e9 + age))
    calibration.save_calibration("new", KNOWN)
    assert {file.stem for file in folder.iterdir()} == {"a", "b", "new"}


def test_the_name_tells_apart_what_the_facts_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network("qwen3")
    options = [
        TextOptions(),
        TextOptions(kv_bits=8),
        TextOptions(kv_bits=8, kv_group_size=32),
        TextOptions(kv_bits=8, quantized_kv_start=7),
        TextOptions(max_kv_size=64),
    ]
    names = {calibration.calibration_key(model, given) for given in options}
    other = Other(model)
    other.fingerprint = "other"
    names.add(calibration.calibration_key(other, options[0]))
    monkeypatch.setenv("MLX_SOMETHING", "1")
    names.add(calibration.calibration_key(model, options[0]))
    monkeypatch.delenv("MLX_SOMETHING")
    for library in ("none", "mlx", "mlx-lm", "mlx-vlm", "mlx-orchard"):
        monkeypatch.setattr(calibration, "version", lambda name, other=library: "0" if name == other else "1")
        names.add(calibration.calibration_key(model, options[0]))
    assert len(names) == len(options) + 7
    monkeypatch.undo()
    assert calibration.calibration_key(
        model, TextOptions(decode_concurrency=3, memory_limit=7)
    ) == calibration.calibration_key(model, TextOptions())


def test_the_name_stays_while_memory_comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    model, names = network("qwen3"), set()
    for free in (1000, 2000):
        monkeypatch.setattr(mx, "device_info", lambda free=free: {"device_name": "CUDA", "free_memory": free})
        names.add(calibration.calibration_key(model, TextOptions()))
    assert len(names) == 1


def test_a_library_need_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "mlx-vlm":
            raise PackageNotFoundError(name)
        return "1"

    model = network("qwen3")
    before = calibration.calibration_key(model, TextOptions())
    monkeypatch.setattr(calibration, "version", version)
    assert calibration.calibration_key(model, TextOptions()) != before


@pytest.mark.parametrize(
    "name",
    ["runner.py", "batching/layer_kinds.py", "prefix_cache/cache.py", "sampling/sampler.py", "calibration.py"],
)
def test_another_source_of_the_engine_makes_another_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, stat = network("qwen3"), Path.stat
    before = calibration.calibration_key(model, TextOptions())
    file = Path(orchard.engine.__file__).parent / name
    assert file.is_file()
    monkeypatch.setattr(Path, "stat", lambda path, **how: stat(Path(__file__) if path == file else path, **how))
    assert calibration.calibration_key(model, TextOptions()) != before
