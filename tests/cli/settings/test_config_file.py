"""Configuration files: what they may hold, and where a mistake is said to be."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.cli import config
from orchard.cli.settings import config_file
from orchard.cli.settings.layers import Mistakes
from orchard.cli.settings.table import TABLE
from orchard.config import ModelSettings, Settings, VoiceModels
from orchard.core.tasks.images import ImageOptions


def settings(folder: Path, text: str | bytes) -> Settings:
    """The settings of a file with this text. Raises Mistakes."""
    file = folder / "orchard.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return config.gather_config(file, (), {}, {}).settings


def mistakes(folder: Path, text: str | bytes) -> list[str]:
    """What is wrong with such a file, without its folder."""
    with pytest.raises(Mistakes) as caught:
        settings(folder, text)
    return [line.replace(f"{folder}/", "") for line in caught.value.lines]


@pytest.mark.parametrize("text", ["", "# nothing\n", "server:\nmodels:\n", "{}", "models: []"])
def test_a_file_may_say_nothing(tmp_path: Path, text: str) -> None:
    assert settings(tmp_path, text) == Settings()


def test_a_file_of_mlx_openai_server(tmp_path: Path) -> None:
    """Its names, with the values that it has for them."""
    made = settings(
        tmp_path,
        """
server:
  host: "127.0.0.2"
  port: 8000
  log_level: INFO
  no_log_file: true
models:
  - model_path: mlx-community/MiniMax-M2.5-4bit
    model_type: lm
    served_model_name: minimax
    context_length: 8192
    tool_call_parser: minimax_m2
    reasoning_parser: minimax_m2
    batch_completion_size: 4
    batch_prefill_size: 1
    batch_prefill_step_size: 512
    default_max_tokens: 2048
    default_repetition_context_size: 20
    prompt_cache_size: 1
    prompt_cache_max_bytes: 2147483648
    kv_bits: 4
    enable_auto_tool_choice: true
    trust_remote_code: false
  - model_path: black-forest-labs/FLUX.2-klein-4B
    model_type: image-generation
    config_name: flux2-klein-4b
    quantize: 4
    lora_paths: [a, b]
    lora_scales: [1, 1]
    on_demand: true
    on_demand_idle_timeout: 120
""",
    )
    assert (made.host, made.port, made.log_level, made.log_file) == ("127.0.0.2", 8000, "info", None)
    minimax, flux = made.models
    assert minimax.served_model_name == "minimax"
    text = minimax.text
    assert (text.context_length, text.decode_concurrency, text.prompt_concurrency, text.prefill_step_size) == (
        8192,
        4,
        1,
        512,
    )
    assert (text.prompt_cache_size, text.prompt_cache_bytes, text.kv_bits) == (1, 2**31, 4)
    assert (text.max_tokens, text.defaults.repetition_context_size) == (2048, 20)
    named = ModelSettings(
        model_path="black-forest-labs/FLUX.2-klein-4B", model_type="image-generation", on_demand=True, ttl=120
    )
    assert flux == replace(
        named,
        image=ImageOptions(config_name="flux2-klein-4b", quantize=4, lora_paths=("a", "b"), lora_scales=(1.0, 1.0)),
    )


def test_what_is_written_is_taken_as_text(tmp_path: Path) -> None:
    """YAML makes numbers, dates and truth of what was meant as a name or a key."""
    made = settings(
        tmp_path,
        "server: {api_keys: [0123, 1e3, no], port: '81'}\n"
        "models: [{model_path: 2024-01-01, aliases: [on, 4.10], adapters: {1: /}, pinned: yes, on_demand: OFF}]",
    )
    assert (made.api_keys, made.port) == (("0123", "1e3", "no"), 81)
    (model,) = made.models
    assert (model.model_path, model.aliases, model.adapters) == ("2024-01-01", ("on", "4.10"), {"1": "/"})
    assert (model.pinned, model.on_demand) == (True, False)


def test_a_list_may_be_one_text(tmp_path: Path) -> None:
    assert settings(tmp_path, "server: {cors_origins: 'http://a, http://b'}").cors_origins == ("http://a", "http://b")


def test_realtime_sessions_have_names(tmp_path: Path) -> None:
    text = "server: {realtime: {assistant: {chat: demo, speech: tts}, other: {chat: big}}}"
    assert settings(tmp_path, text).realtime == {
        "assistant": VoiceModels(chat="demo", speech="tts"),
        "other": VoiceModels(chat="big"),
    }


@pytest.mark.parametrize(
    "value",
    ["x", "[a]", "{a: b}", "{a: [b]}", "{a: {}}", "{a: {speech: b}}", "{a: {chat: ''}}", "{a: {chat: b, voice: c}}"],
)
def test_a_realtime_session_needs_a_chat_model(tmp_path: Path, value: str) -> None:
    (found,) = mistakes(tmp_path, f"server: {{realtime: {value}}}")
    assert "must be a mapping of names to `chat`, `transcription`, `speech` and `turn_detection`" in found


@pytest.mark.parametrize("key", ["voices: {a: {b: c}}", "adapters: {a: {b: c}}"])
def test_other_mappings_are_not_nested(tmp_path: Path, key: str) -> None:
    (found,) = mistakes(tmp_path, f"models: [{{model_path: demo, {key}}}]")
    assert "not a mapping" in found


def test_null_is_absent(tmp_path: Path) -> None:
    assert settings(tmp_path, "server: {port: null, ttl: ~, api_keys: }") == Settings()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server:\n  port: 80000", ["2: port: must be an integer from 0 to 65535, not '80000'"]),
        ("server:\n  host: ''", ["2: host: must be a name or an address, without spaces, not ''"]),
        (
            "server:\n  tool_call_parser: qwen3_codr\nmodels:\n- model_path: a\n  reasoning_parser: mistrl",
            [
                "2: tool_call_parser: 'qwen3_codr' is not a known tool_call_parser; the known ones are ",
                "5: reasoning_parser: 'mistrl' is not a known reasoning_parser; the known ones are ",
            ],
        ),
        ("server:\n  log_file: none/x.log", ["2: log_file: can't log to "]),
        ('"\\x1b[31m": 1', ["1: \\x1b[31m: is not a setting"]),
        ("server:\n  prot: 1", ["2: prot: is not a setting; did you mean `port`?"]),
        ("server:\n  hgfedcba: 1", ["2: hgfedcba: is not a setting"]),
        ("sever:\n  port: 1", ["1: sever: is not a setting; did you mean `server`?"]),
        ("port: 1", ["1: port: belongs under `server`"]),
        ("pinned: true", ["1: pinned: belongs to one of `models`"]),
        ("server:\n  models: []", ["2: models: belongs at the top of the file"]),
        ("server:\n  adapter_path: /", ["2: adapter_path: belongs to one of `models`"]),
        ("models:\n- model_path: a\n  port: 1", ["3: port: belongs under `server`"]),
        ("server:\n  port: 1\n  port: 1", ["3: port: is given twice, first in line 2"]),
        ("server: 1", ["1: server: must be a mapping of settings to values"]),
        ("server: []", ["1: server: must be a mapping of settings to values"]),
        ("models: {}", ["1: models: must be a list of models, each beginning with `- model_path:`"]),
        ("models:\n- a", ["2: models: each model must begin with `- model_path:`"]),
        (
            "models:\n- \n- pinned: 1",
            ["2: models: a model needs a `model_path`", "3: models: a model needs a `model_path`"],
        ),
        ("- 1", ["1: the file must be a mapping with the keys `server` and `models`"]),
        ("server:\n  ? [a]\n  : b", ["2: a key must be text, not a list or a mapping"]),
        ("server:\n  port: [[1]]", ["2: port: must contain only plain values"]),
        ("server:\n  api_keys: [a, ~]", ["2: api_keys: must contain only plain values"]),
        ("server:\n  host: !x a", ["2: host: must be a plain value, without the tag !x"]),
        ("server:\n  host: !!set a", ["2: host: must be a plain value, without the tag tag:yaml.org,2002:set"]),
        (
            "server: !!python/object/apply:os.system [ls]\nport: 1",
            ["1: server: must be a mapping of settings to values", "2: port: belongs under `server`"],
        ),
        (
            "server:\n  temp: 1\n  temperature: 2",
            ["3: temperature: sets the same as orchard.yaml:2: temp, but to another value"],
        ),
        (
            "server:\n  log_file: x\n  no_log_file: on",
            ["3: no_log_file: can't be combined with orchard.yaml:2: log_file"],
        ),
        (
            "models:\n- model_path: a\n  kv_bits: 4\n  max_kv_size: 9",
            ["4: max_kv_size: kv_bits and max_kv_size can't be combined: a bounded cache is not quantised"],
        ),
        (
            "models:\n- model_path: a\n- model_path: b\n  aliases: [a]",
            ["3: model_path: another model is named 'a' too: give one of them a `served_model_name`"],
        ),
        (
            "server:\n  api_keys: [ok, my secret]",
            ["2: api_keys: must be made of printable ASCII characters without spaces"],
        ),
        ("a: 1\n b: 2", ["2: mapping values are not allowed here"]),
        ("server:\n\tport: 1", ["2: tabs can't indent lines: use spaces"]),
        ("models: &a\n  - *a", ["2: aliases are not allowed: put what all models share under `server`"]),
        ("models: " + "[" * 50_000, ["1: it is nested deeper than 6 levels"]),
        ("a: 1\n---\nb: 2", ["2: but found another document"]),
        ("a: 1\nb: \x07", ["2: contains a character that YAML does not allow"]),
        (b"a: 1\nb: \xff", ["2: is not text in UTF-8"]),
    ],
)  # fmt: skip
def test_a_mistake_is_said_with_its_line_and_key(tmp_path: Path, text: str | bytes, expected: list[str]) -> None:
    found = mistakes(tmp_path, text)
    # Some end with a list of names, or a path.
    cut = [
        line[: len(f"orchard.yaml:{wanted}")] if wanted.endswith(" ") else line
        for line, wanted in zip(found, expected, strict=True)
    ]
    assert cut == [f"orchard.yaml:{line}" for line in expected]


def test_all_mistakes_are_found_at_once(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "server: {port: x, ttl: 0}\nmodels:\n- {model_path: a, kv_bits: 5}\n- {aliases: [b]}")
    assert [line.split(": must")[0].split(": a model")[0] for line in found] == [
        "orchard.yaml:1: port",
        "orchard.yaml:1: ttl",
        "orchard.yaml:3: kv_bits",
        "orchard.yaml:4: models",
    ]


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "#" * 300_000) == ["orchard.yaml: is larger than 256 KiB"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Mistakes, match=r"none\.yaml: can't be read: No such file"):
        config.check_config_file(tmp_path / "none.yaml")


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | st.text(max_size=20)
_KEYS = st.sampled_from([name for setting in TABLE for name in setting.names]) | st.text(max_size=8)
_ITEMS = st.recursive(_SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3))
_SETTINGS = st.dictionaries(_KEYS, _ITEMS, max_size=6)
_FILES = st.fixed_dictionaries(
    {}, optional={"server": _SETTINGS | _ITEMS, "models": st.lists(_SETTINGS | _ITEMS) | _ITEMS}
)


@given(_FILES.map(lambda content: yaml.safe_dump(content, allow_unicode=True)) | st.text() | st.binary())
@example("? ")
@example("{a: {b: {")
@example("!!timestamp 2024-99-99: 1")
@example("server: {1:30: 2, =: 3, <<: {}}")
@example("%YAML 9.9\n--- a")
def test_any_file_is_taken_or_its_mistakes_are_named(
    tmp_path_factory: pytest.TempPathFactory, text: str | bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        settings(folder, text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    except Mistakes as error:
        lines = error.lines
    else:
        lines = []
    assert all(re.match(rf"{folder}/orchard\.yaml:\d+: ", line) for line in lines), lines


def test_a_file_that_is_written_has_the_settings_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "adapter").mkdir()
    models = settings(
        tmp_path,
        f"""
server: {{ttl: 90}}
models:
  - model_path: "demo"
    served_model_name: "Ümläut: #1"
    aliases: [one, "2"]
    adapters: {{small: {tmp_path}/adapter}}
    model_type: lm
    on_demand: true
    kv_bits: 4
    temperature: 0.25
    prompt_cache_bytes: 0
    enable_thinking: false
    speculation: "off"
  - {{model_path: demo-vision, decode_concurrency: 3, max_kv_size: 4096, prompt_cache_bytes: 3MB}}
  - {{model_path: demo-whisper}}
""",
    ).models
    for model in models:
        assert settings(tmp_path, config_file.write_model(model)).models == (model,)
