"""Settings: how values are written, which source goes before which, and what becomes of each."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from orchard.cli import config
from orchard.cli import serve as serve_command
from orchard.cli.app import app
from orchard.cli.settings import values
from orchard.cli.settings.layers import Mistakes
from orchard.cli.settings.table import TABLE, build_table, flag_of, settings_by_name, settings_by_variable, settings_of
from orchard.cli.settings.values import format_size, parse_size
from orchard.config import IgnoredSettings, ModelSettings, Settings, Shorthands
from orchard.core.setting import Names, other_names, setting, when_unset
from orchard.core.tasks.embed import EmbeddingOptions
from orchard.core.tasks.images import ImageOptions
from orchard.core.tasks.rerank import RerankOptions
from orchard.core.tasks.speak import SpeechOptions
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from tests.support.config_docs import example_of, row

DEMO = ModelSettings(model_path="demo")


def demo(**text: Any) -> Settings:
    """The settings of a server of the demo whose models are run with these options."""
    shared = {name: value for name, value in text.items() if name == "queue_size"}
    options: dict[str, Any] = {
        "text": TextOptions(**text),
        "embeddings": EmbeddingOptions(**shared),
        "rerank": RerankOptions(**shared),
        "image": ImageOptions(**shared),
    }
    return Settings(models=(ModelSettings(model_path="demo", **options),), **options)


def serve(*args: str, **env: str) -> tuple[Settings, list[str]]:
    """What `orchard serve` with these arguments would serve, and its notes. Raises Mistakes."""
    served: list[tuple[Settings, list[str]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serve_command, "serve_models", lambda settings, notes, _: served.append((settings, notes)))
        for name in settings_by_variable().keys() & os.environ.keys():
            patch.delenv(name)
        result = CliRunner().invoke(app, ["serve", *args], env=env)
    if isinstance(result.exception, Mistakes):
        raise result.exception
    assert result.exit_code == 0, result.output
    return served[0]


def wrong(*args: str, **env: str) -> list[str]:
    """The lines that say what is wrong."""
    with pytest.raises(Mistakes) as caught:
        serve(*args, **env)
    return caught.value.lines


class TestValues:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("0", 0),
            ("123", 123),
            ("512MB", 512_000_000),
            ("8GB", 8 * 10**9),
            ("8GiB", 2**33),
            ("8gib", 2**33),
            ("1.5 MiB", 3 * 2**19),
            (".5K", 500),
            ("7B", 7),
            ("2T", 2 * 10**12),
            (str(2**63), 2**63 - 1),
        ],
    )
    def test_sizes(self, text: str, expected: int) -> None:
        assert parse_size(text) == expected

    @pytest.mark.parametrize("text", ["", "GB", "8 bytes", "-1", "1e9", "1.2.3", "8iB", "8GBB"])
    def test_no_sizes(self, text: str) -> None:
        with pytest.raises(ValueError, match="must be a size in bytes, such as 1000000, 512MB or 8GiB"):
            values.KINDS["size"].read(text)

    @given(st.integers(0, 2**62))
    def test_a_shown_size_is_read_back(self, number: int) -> None:
        assert parse_size(format_size(number)) == number

    @pytest.mark.parametrize(
        ("name", "raw", "words"),
        [
            ("port", "70000", "must be an integer from 0 to 65535, not '70000'"),
            ("port", "1_0", "must be an integer from 0 to 65535, not '1_0'"),
            ("port", "9" * 5000, "must be an integer from 0 to 65535, not '" + "9" * 59 + "…'"),
            ("seed", str(2**63), "must be an integer, not"),
            ("port", ["1"], "must be an integer from 0 to 65535, not a list"),
            ("port", {"a": "1"}, "not a mapping"),
            ("log_level", "loud", "must be one of "),
            ("kv_bits", "5", "must be one of 2, 3, 4, 6, 8, or 0, not '5'"),
            ("kv_bits", "4.0", "must be one of 2, 3, 4, 6, 8"),
            ("num_draft_tokens", "16", "must be an integer from 1 to 15, not '16'"),
            ("decode_concurrency", "0", "must be an integer of at least 1, not '0'"),
            ("max_kv_size", "4", "of at least 5"),
            ("temperature", "nan", "must be a number from 0 to 2, not 'nan'"),
            ("temperature", "2.1", "must be a number from 0 to 2"),
            ("repetition_penalty", "0", "must be a number above 0 and at most 10"),
            ("responses_ttl", "0", "must be a number above 0, not '0'"),
            ("watchdog_timeout", "-1", "must be a number of at least 0"),
            ("queue_timeout", "inf", "must be a number above 0"),
            ("stable_prompts", "maybe", "must be true or false, not 'maybe'"),
            ("memory_limit", "24", "must be at least 1MiB, not 24 bytes; a unit may follow, as in 24GB"),
            ("max_body_bytes", "0", "must be at least 1, not 0 bytes"),
            ("prompt_cache_dir_bytes", str(2**63 + 1), "is more than any machine has"),
            ("adapter_path", "/no/such/folder", "there is no folder /no/such/folder"),
            ("chat_template_file", "/no/such/file", "there is no file /no/such/file"),
            ("prompt_cache_dir", __file__, f"must be a folder, and {__file__} is a file"),
            ("responses_path", "/", "must be a file, and / is a folder"),
            ("host", "a b", "must be a name or an address, without spaces, not 'a b'"),
            ("host", "a\x1b", "must be a name or an address, without spaces, not 'a\\x1b'"),
            ("tool_call_parser", "nonsuch", "'nonsuch' is not a known tool_call_parser; the known ones are "),
            ("reasoning_parser", "nonsuch", "'nonsuch' is not a known reasoning_parser; the known ones are "),
            ("message_converter", "nonsuch", "'nonsuch' is not a known message_converter; the known ones are "),
            ("lora_scales", ["0.5", "much"], "must be a number, not 'much'"),
            ("log_file", "/no/such/x.log", "can't log to /no/such/x.log: there is no folder /no/such"),
            ("log_file", "/proc/self/no.log", "can't log to "),
            ("log_file", "a\0b", "must be a file, not"),
            ("log_file", "~nobody-of-that-name/x", "must be a file, not"),
            ("model_dir", "a" * 5000, "must be an existing folder, not"),
            ("model_path", " ", "must be a name, not ' '"),
            ("served_model_name", "\udce4", "must be a name, not"),
            ("aliases", ",", "must be a list of names, not empty"),
            ("aliases", {"a": "b"}, "must be a list of names, not a mapping"),
            ("adapters", "a", "must be a mapping of names to existing folders, not a single value"),
            ("adapters", {"a": "/no/such/folder"}, "there is no folder"),
            ("cors_origins", "example.com", "must be origins, such as https://example.com"),
            ("cors_origins", "https://example.com/", "must be origins, such as"),
            ("cors_origins", "https://a.b https://c.d", "must be origins, such as"),
            ("cors_origins", "**", "must be origins, such as"),
            ("allowed_hosts", "example.com:8000", "must be names or addresses without a port"),
            ("allowed_hosts", "http://example.com", "must be names or addresses without a port"),
            ("allowed_hosts", "[::1]:8000", "must be names or addresses without a port"),
        ],
    )
    def test_what_is_wrong_and_what_is_allowed(self, name: str, raw: values.Raw, words: str) -> None:
        with pytest.raises(ValueError, match=re.escape(words)):
            settings_by_name()[name].kind.read(raw)

    def test_a_folder_is_given_as_an_absolute_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        kind = settings_by_name()["prompt_cache_dir"].kind
        assert [kind.read(text) for text in ("a", "~/a")] == [str(tmp_path.resolve() / "a")] * 2
        assert settings_by_name()["responses_path"].kind.read(":memory:") == ":memory:"

    @given(st.sampled_from(TABLE), st.text() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()))
    def test_any_text_is_read_or_refused_with_a_reason(self, setting: Any, raw: values.Raw) -> None:
        reason = "it is right"
        try:
            setting.kind.read(raw)
        except ValueError as error:
            reason = str(error)
        assert reason

    @given(st.sampled_from([setting for setting in TABLE if Shorthands not in setting.homes]), st.data())
    def test_what_is_read_fits_its_field(self, setting: Any, data: st.DataObject) -> None:
        """A value that passes here must also pass where the settings are read from a message."""
        numbers = st.integers(-10, 200) | st.floats(-10, 20) | st.integers()
        text = data.draw(numbers.map(str) | st.sampled_from(["true", "demo", "error", "lm", "/", "8GB"]))
        try:
            value = setting.kind.read(text)
        except ValueError:
            return
        if setting.zero_is_none:
            value = value or None
        for home in setting.homes:
            needed = {"model_path": "demo"} if home is ModelSettings else {}
            msgspec.convert(needed | {setting.name: value}, home)


class TestOrder:
    def test_without_anything_the_demo_is_served(self) -> None:
        assert serve() == (Settings(models=(DEMO,)), [])

    @pytest.mark.parametrize(
        ("env", "flags", "expected"),
        [
            ({"ORCHARD_PORT": "9000", "ORCHARD_LOG_LEVEL": "DEBUG"}, (), {"port": 9000, "log_level": "debug"}),
            ({"ORCHARD_PORT": "9000", "ORCHARD_HOST": "::1"}, ("--port", "9001"), {"port": 9001, "host": "::1"}),
            ({"ORCHARD_PORT": ""}, (), {}),
            ({}, ("--shutdown-grace", "2", "--max-requests", "7"), {"shutdown_grace": 2, "max_requests": 7}),
            ({"ORCHARD_MAX_BODY_BYTES": "9MB"}, (), {"max_body_bytes": 9_000_000}),
            ({}, ("--no-stable-prompts",), {"stable_prompts": False}),
            ({"ORCHARD_STABLE_PROMPTS": "false"}, ("--stable-prompts",), {"stable_prompts": True}),
            ({"ORCHARD_ALLOW_DOWNLOAD": "1", "ORCHARD_TTL": "3"}, (), {"allow_download": True}),
            ({"ORCHARD_MEMORY_LIMIT": "1.5 GiB"}, ("--model-dir", "/"), {"memory_limit": 3 * 2**29, "model_dir": "/"}),
            (
                {},
                ("--max-loaded-models", "2", "--fallback-model", "demo"),
                {"max_loaded_models": 2, "fallback_model": "demo"},
            ),
            (
                {"ORCHARD_CONTEXT_OVERFLOW": "summarize"},
                ("--queue-timeout", "1.5", "--watchdog-timeout", "0"),
                {"context_overflow": "summarize", "queue_timeout": 1.5, "watchdog_timeout": 0},
            ),
            ({"ORCHARD_LOG_FILE": __file__}, ("--no-log-file",), {"log_file": None}),
            ({"ORCHARD_NO_LOG_FILE": "1"}, ("--log-file", __file__), {"log_file": __file__}),
            (
                {"ORCHARD_RESPONSES_PATH": ":memory:", "ORCHARD_RESPONSES_TTL": "60"},
                ("--responses-max-bytes", "1MB", "--responses-archive-dir", "/"),
                {
                    "responses_path": ":memory:",
                    "responses_ttl": 60,
                    "responses_max_bytes": 10**6,
                    "responses_archive_dir": "/",
                },
            ),
        ],
    )
    def test_flags_go_before_the_environment(
        self, env: dict[str, str], flags: Sequence[str], expected: dict[str, Any]
    ) -> None:
        settings, notes = serve(*flags, **env)
        assert ({name: getattr(settings, name) for name in expected}, notes) == (expected, [])

    @pytest.mark.parametrize(
        ("env", "flags", "expected"),
        [
            (
                {"ORCHARD_KV_BITS": "8", "ORCHARD_PROMPT_CACHE_BYTES": "0", "ORCHARD_DECODE_CONCURRENCY": "3"},
                ("--kv-bits", "4", "--kv-group-size", "32", "--quantized-kv-start", "5000"),
                {
                    "kv_bits": 4,
                    "kv_group_size": 32,
                    "quantized_kv_start": 5000,
                    "prompt_cache_bytes": 0,
                    "decode_concurrency": 3,
                },
            ),
            (
                {"ORCHARD_PROMPT_CACHE_DIR": "/", "ORCHARD_MAX_BYTES": "1GB"},
                ("--queue-size", "7", "--prefill-step-size", "64", "--max-kv-size", "9", "--prompt-concurrency", "2"),
                {
                    "prompt_cache_dir": "/",
                    "prompt_cache_bytes": 10**9,
                    "queue_size": 7,
                    "prefill_step_size": 64,
                    "max_kv_size": 9,
                    "prompt_concurrency": 2,
                },
            ),
            ({}, ("--tool-call-parser", "mistral"), {"tool_call_parser": "mistral"}),
            ({"ORCHARD_REASONING_PARSER": "none"}, (), {"reasoning_parser": "none"}),
            ({"ORCHARD_TEMP": "0.5"}, ("--top-k", "5"), {"defaults": SamplingDefaults(temperature=0.5, top_k=5)}),
            (
                {"ORCHARD_ENABLE_THINKING": "0"},
                ("--max-tokens", "9"),
                {"enable_thinking": False, "max_tokens": 9},
            ),
            ({"PREFILL_STEP_SIZE": "5", "KV_BITS": "4"}, (), {"prefill_step_size": 5, "kv_bits": 4}),
            ({"KV_GROUP_SIZE": "32", "QUANTIZED_KV_START": "9"}, (), {"kv_group_size": 32, "quantized_kv_start": 9}),
            ({"KV_BITS": "0", "MAX_KV_SIZE": "0"}, (), {}),
            ({"KV_BITS": "0", "MAX_KV_SIZE": "9"}, (), {"max_kv_size": 9}),
            ({"KV_BITS": "4"}, ("--kv-bits", "0", "--max-kv-size", "0"), {}),
            (
                {"MLX_VLM_MAX_TOKENS": "9", "MLX_VLM_ENABLE_THINKING": "1", "MLX_VLM_THINKING_BUDGET": "7"},
                (),
                {"max_tokens": 9, "enable_thinking": True, "thinking_budget": 7},
            ),
            ({"MLX_VLM_MAX_NUM_SEQS": "3"}, (), {"decode_concurrency": 3}),
            ({"MAX_KV_SIZE": "50"}, ("--max-num-seqs", "4"), {"max_kv_size": 50, "decode_concurrency": 4}),
        ],
    )
    def test_how_models_are_run(self, env: dict[str, str], flags: Sequence[str], expected: dict[str, Any]) -> None:
        assert serve(*flags, **env) == (demo(**expected), [])

    def test_zeros_of_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "orchard.yaml"
        file.write_text(
            "server: {kv_bits: 4}\nmodels:\n- {model_path: a, kv_bits: 0, max_kv_size: 0}\n- model_path: b\n"
        )
        settings, notes = serve("--config", str(file))
        assert ([model.text.kv_bits for model in settings.models], settings.text.kv_bits) == ([None, 4], 4)
        assert (settings.models[0].text.max_kv_size, notes) == (None, [])

    @pytest.mark.parametrize(
        ("text", "flags", "level"),
        [
            ("server: {debug: true, log_level: error}", (), "debug"),
            ("models: [{model_path: a, debug: on}]", (), "debug"),
            ("models: [{model_path: a, debug: false}]", (), "info"),
            ("server: {debug: true}", ("--log-level", "error"), "error"),
            ("server: {}", ("--debug",), "debug"),
            ("server: {log_level: error}", ("--debug", "--log-level", "INFO"), "debug"),
            ("server: {log_level: CRITICAL}", (), "critical"),
            ("server: {}", ("--log-level", "CRITICAL"), "critical"),
        ],
    )
    def test_how_much_is_logged(self, tmp_path: Path, text: str, flags: Sequence[str], level: str) -> None:
        file = tmp_path / "orchard.yaml"
        file.write_text(text)
        settings, notes = serve("--config", str(file), *flags)
        assert (settings.log_level, notes) == (level, [])

    def test_every_layer(self, tmp_path: Path) -> None:
        file = tmp_path / "orchard.yaml"
        file.write_text(
            "server: {port: 1, host: a, ttl: 5, kv_bits: 8, kv_group_size: 32, top_k: 1}\n"
            "models:\n"
            "  - {model_path: one, kv_group_size: 128, top_k: 2, top_p: 0.1, quantized_kv_start: 1}\n"
            "  - {model_path: two, ttl: 7}\n"
        )
        settings, _ = serve(
            *("--config", str(file), "--host", "b", "--top-k", "4"), ORCHARD_TOP_K="3", QUANTIZED_KV_START="2"
        )
        common: dict[str, Any] = {"kv_bits": 8, "quantized_kv_start": 2}
        assert (settings.port, settings.host, settings.ttl) == (1, "b", 5)
        assert settings.text == TextOptions(**common, kv_group_size=32, defaults=SamplingDefaults(top_k=4))
        assert settings.models == (
            ModelSettings(
                model_path="one",
                ttl=5,
                text=TextOptions(**common, kv_group_size=128, defaults=SamplingDefaults(top_k=4, top_p=0.1)),
            ),
            ModelSettings(model_path="two", ttl=7, text=settings.text),
        )

    def test_launch_is_serve(self, monkeypatch: pytest.MonkeyPatch) -> None:
        served: list[Settings] = []
        monkeypatch.setattr(serve_command, "serve_models", lambda settings, *_: served.append(settings))
        assert CliRunner().invoke(app, ["launch", "--port", "9"]).exit_code == 0
        assert served == [Settings(port=9, models=(DEMO,))]


class TestModels:
    @pytest.mark.parametrize(
        ("args", "env", "expected"),
        [
            (("a", "b"), {}, ["a", "b"]),
            (("a", "--model", "b", "--model-path", "c"), {}, ["a", "b", "c"]),
            ((), {"ORCHARD_MODEL": "a, b"}, ["a", "b"]),
            ((), {"PRELOAD_MODEL": "a"}, ["a"]),
            ((), {"MLX_VLM_PRELOAD_MODEL": "a"}, ["a"]),
            (("b",), {"ORCHARD_MODEL": "a"}, ["b"]),
        ],
    )
    def test_the_command_line_and_the_environment_name_models(
        self, args: Sequence[str], env: dict[str, str], expected: list[str]
    ) -> None:
        settings, _ = serve(*args, **env)
        assert [model.model_path for model in settings.models] == expected

    def test_what_is_said_of_the_one_model(self) -> None:
        settings, _ = serve("a", "--served-model-name", "b", "--model-type", "lm", "--adapter-path", "/")
        assert settings.models == (
            ModelSettings(model_path="a", served_model_name="b", model_type="lm", text=TextOptions(adapter_path="/")),
        )
        assert settings.text.adapter_path is None, "the adapter of one model is not that of others"
        assert serve(PRELOAD_ADAPTER="/")[0].models == (
            ModelSettings(model_path="demo", text=TextOptions(adapter_path="/")),
        )

    def test_several_models_have_no_name_in_common(self) -> None:
        (line,) = wrong("a", "b", "--served-model-name", "c")
        assert line.startswith("--served-model-name: applies to one model, but 2 are named")
        assert wrong("a", "a") == ["MODEL: another model is named 'a' too: give one of them a `served_model_name`"]

    def test_a_folder_is_called_by_its_last_part(self, tmp_path: Path) -> None:
        folder = tmp_path / "a"
        folder.mkdir()
        assert wrong("a", str(folder)) == [
            "MODEL: another model is named 'a' too: give one of them a `served_model_name`"
        ]
        odd = ("~nobody-of-that-name", "a" * 5000)
        assert [model.model_path for model in serve(*odd)[0].models] == list(odd)

    def test_a_file_and_the_command_line_add_up(self, tmp_path: Path) -> None:
        file = tmp_path / "orchard.yaml"
        file.write_text("models: [{model_path: a, aliases: [x], on_demand: true}]")
        args = ("--config", str(file))
        assert [model.model_path for model in serve(*args, "b")[0].models] == ["a", "b"]
        assert [model.model_path for model in serve(*args)[0].models] == ["a"]
        assert wrong(*args, "x") == ["MODEL: another model is named 'x' too: give one of them a `served_model_name`"]
        assert wrong(*args, "--model-type", "lm", ORCHARD_ADAPTER_PATH="/") == [
            "ORCHARD_ADAPTER_PATH: needs a MODEL on the command line; in a file, each model has its own `adapter_path`",
            "--model-type: needs a MODEL on the command line; in a file, each model has its own `model_type`",
        ]

    @pytest.mark.parametrize(
        ("server", "model", "expected"),
        [
            ("", "", None),
            ("", "on_demand: true", 60),
            ("", "on_demand: true, ttl: 5", 5),
            ("", "on_demand: true, on_demand_idle_timeout: 5", 5),
            ("ttl: 7", "on_demand: true", 7),
            ("ttl: 7", "", 7),
        ],
    )
    def test_what_is_on_demand_goes_after_a_minute(
        self, tmp_path: Path, server: str, model: str, expected: float | None
    ) -> None:
        file = tmp_path / "orchard.yaml"
        file.write_text(f"server: {{{server}}}\nmodels: [{{model_path: a, {model}}}]")
        assert config.gather_config(file, (), {}, {}).settings.models[0].ttl == expected


class TestMistakes:
    def test_the_environment_is_named(self) -> None:
        assert wrong(ORCHARD_PORT="x", KV_BITS="5") == [
            "KV_BITS: must be one of 2, 3, 4, 6, 8, or 0, not '5'",
            "ORCHARD_PORT: must be an integer from 0 to 65535, not 'x'",
        ]

    def test_two_names_of_one_setting_say_the_same(self) -> None:
        assert serve("--temp", "1", "--temperature", "1")[0].text.defaults.temperature == 1
        assert wrong("--temp", "1", "--temperature", "0.5") == [
            "--temp: sets the same as --temperature, but to another value"
        ]
        assert wrong(KV_BITS="8", ORCHARD_KV_BITS="4") == [
            "ORCHARD_KV_BITS: sets the same as KV_BITS, but to another value"
        ]
        assert wrong("--log-file", "x", "--no-log-file") == ["--no-log-file: can't be combined with --log-file"]

    def test_what_does_not_go_together(self) -> None:
        assert wrong("--max-kv-size", "9", KV_BITS="4") == [
            "--max-kv-size: kv_bits and max_kv_size can't be combined: a bounded cache is not quantised"
        ]

    @pytest.mark.parametrize(
        ("flags", "words"),
        [
            (("--port", "70000"), "an integer from 0 to 65535"),
            (("--log-level", "loud"), "debug"),
            (("--colour",), "--colour"),
            (("--no-no-log-file",), "--no-no-log-file"),
            (("--adapter-path", "/no/such/folder"), "there is no folder"),
            (("--memory-limit", "8XB"), "8GiB"),
        ],
    )
    def test_a_wrong_flag_is_a_usage_error(self, flags: Sequence[str], words: str) -> None:
        result = CliRunner().invoke(app, ["serve", *flags], env={"COLUMNS": "200"})
        assert result.exit_code == 2
        assert words in result.output


class TestDraftModels:
    @pytest.mark.parametrize("name", ["draft_model_path", "draft_model"])
    def test_all_places(self, tmp_path: Path, name: str) -> None:
        """A file for each of its models; a flag and a variable for the one that the command line names."""
        file = tmp_path / "orchard.yaml"
        file.write_text(f"models:\n  - {{model_path: a, {name}: b, num_draft_tokens: 4}}\n  - {{model_path: c}}")
        entries = serve("--config", str(file))[0].models
        flags = serve("a", f"--{name.replace('_', '-')}", "b", "--num-draft-tokens", "4")[0].models
        variables = serve("a", **{f"ORCHARD_{name.upper()}": "b", "ORCHARD_NUM_DRAFT_TOKENS": "4"})[0].models
        for model in (entries[0], flags[0], variables[0]):
            assert (model.text.draft_model_path, model.text.num_draft_tokens) == ("b", 4)
        assert entries[1].text == TextOptions()


class TestNotes:
    def test_what_has_no_effect(self, tmp_path: Path) -> None:
        file = tmp_path / "orchard.yaml"
        file.write_text("models:\n  - {model_path: a, model_type: image-edit, trust_remote_code: false, debug: true}")
        args = ("--config", str(file), "--disable-batching", "--enable-auto-tool-choice")
        _, notes = serve(*args, MLX_TRUST_REMOTE_CODE="true")
        assert notes == [
            "MLX_TRUST_REMOTE_CODE: does nothing. Orchard never runs code that comes with a model.",
            "--disable-batching: does nothing. Seeds work in batches too. To answer one request at a time, set "
            "decode_concurrency to 1.",
        ]

    def test_a_variable_that_is_none(self) -> None:
        _, notes = serve(
            **{"ORCHARD_FOO": "1", "ORCHARD_PROT": "1", "ORCHARD_\33[31m": "1"},
            ORCHARD_URL="http://x",
            ORCHARD_KV_BITS="4",
            MLX_VLM_MODEL_PATHS="/models",
            OTHER="1",
        )
        assert notes == [
            "MLX_VLM_MODEL_PATHS: is not a setting of Orchard",
            "ORCHARD_\\x1b[31m: is not a setting of Orchard",
            "ORCHARD_FOO: is not a setting of Orchard",
            "ORCHARD_PROT: is not a setting of Orchard; did you mean `ORCHARD_PORT`?",
        ]


# The keys and flags of the systems that people come from.
SERVER_KEYS = """
    host port log_level log_file no_log_file api_keys cors_origins queue_timeout queue_size max_loaded_models
    memory_limit
"""
MODEL_KEYS = """
    model_path model_type served_model_name aliases context_length adapter_path trust_remote_code revision
    chat_template_file tool_call_parser reasoning_parser enable_auto_tool_choice message_converter prompt_cache_size
    prompt_cache_max_bytes prompt_cache_dir batch_completion_size batch_prefill_size batch_prefill_step_size
    prefill_step_size max_kv_size kv_bits kv_group_size quantized_kv_start draft_model_path num_draft_tokens
    default_max_tokens default_temperature default_top_p default_top_k default_min_p default_repetition_penalty
    default_presence_penalty default_xtc_probability default_xtc_threshold default_seed default_repetition_context_size
    enable_thinking thinking_budget config_name quantize lora_paths lora_scales on_demand on_demand_idle_timeout pinned
    queue_size debug disable_batching disable_auto_resize
"""
FLAGS = """
    model model_path model_type served_model_name adapter_path context_length max_tokens temperature temp top_p top_k
    min_p repetition_penalty presence_penalty xtc_probability xtc_threshold seed repetition_context_size
    decode_concurrency prompt_concurrency prefill_step_size prompt_cache_size prompt_cache_bytes max_bytes
    prompt_cache_dir kv_bits kv_group_size quantized_kv_start max_kv_size draft_model_path draft_model num_draft_tokens
    chat_template_file tool_call_parser reasoning_parser enable_auto_tool_choice trust_remote_code config_name quantize
    lora_paths lora_scales log_level log_file no_log_file debug disable_batching max_num_seqs allowed_origins api_key
    enable_thinking thinking_budget model_dir host port queue_timeout queue_size
"""


class TestTable:
    @pytest.mark.parametrize(
        ("names", "scopes"),
        [
            (SERVER_KEYS, ("server", "all")),
            (MODEL_KEYS, ("all", "named", "entry")),
            (FLAGS, ("server", "all", "named")),
        ],
    )
    def test_the_names_that_people_have_are_known(self, names: str, scopes: Sequence[str]) -> None:
        found = {name: settings_by_name()[name].scope if name in settings_by_name() else None for name in names.split()}
        assert {name for name, scope in found.items() if scope not in scopes} == set()

    def test_every_setting_of_the_server_can_be_set(self) -> None:
        kinds = {"text", "embeddings", "rerank", "transcription", "speech", "turn_detection", "image"}
        for home, own in (
            (Settings, {"models", *kinds}),
            (ModelSettings, kinds),
            (EmbeddingOptions, {"memory_limit", "halvings"}),
            (RerankOptions, {"memory_limit", "halvings"}),
            (ImageOptions, {"memory_limit", "halvings"}),
            (SpeechOptions, {"memory_limit", "halvings"}),
            # The pool divides the memory limit, and a hostfile says what the share of this machine is.
            (TextOptions, {"defaults", "memory_limit", "halvings", "local_share", "rank_share"}),
            (SamplingDefaults, set()),
            (Shorthands, set()),
            (IgnoredSettings, set()),
        ):
            fields = {setting.name for setting in TABLE if home in setting.homes}
            assert fields | own == {field.name for field in msgspec.structs.fields(home)}

    def test_no_name_has_two_meanings(self) -> None:
        names = [name for setting in TABLE for name in setting.names]
        variables = [variable for setting in TABLE for variable in setting.variables]
        assert len(names) == len(set(names))
        assert len(variables) == len(set(variables))

    def test_help_shows_every_setting_that_has_an_effect(self) -> None:
        shown = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "80"}).output
        flags = {one.name: flag_of(one.names[0]) for one in TABLE if not one.only_in_file}
        found = {name for name, flag in flags.items() if re.search(rf"{flag}\s", shown)}
        assert found == {one.name for one in TABLE if one.name in flags and one.group != "ignored"}


class Cropping(msgspec.Struct, frozen=True):
    """A Struct within the options of a model."""

    sharpness: Annotated[Literal["low", "high"], setting("requests", "How sharp pictures are.")] = "low"


class PictureOptions(msgspec.Struct, frozen=True, tag="picture"):
    """The options of one kind of model."""

    steps: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=50)] | None,
        setting("concurrency", "The steps in which a picture is made.", zero_is_none=True),
        other_names("num_steps", "PICTURE_STEPS"),
        when_unset("chosen for the model", example="20"),
    ] = None
    cropping: Cropping = Cropping()
    max_batch: int = 1
    """No setting."""


Count = Annotated[int, msgspec.Meta(ge=0), when_unset("none", example="0")]


class SoundOptions(msgspec.Struct, frozen=True, tag="sound"):
    """The options of another kind."""

    voices: Annotated[Names, setting("models", "The voices.", scope="named"), other_names(flag="voice")] = ()
    echoes: Annotated[Count | None, setting("models", "The echoes."), when_unset("as many as fit", example="7")] = None


class AnyModel(msgspec.Struct, frozen=True):
    """A model of either kind, with what they have in common."""

    weight: Annotated[float, setting("memory", "Its share.")] = 0.5
    options: PictureOptions | SoundOptions = PictureOptions()


class TestDescribed:
    """A setting is one field, in a Struct or in one within it."""

    found: ClassVar = {setting.name: setting for setting in settings_of(AnyModel, "entry")}

    def test_the_fields_of_every_kind_of_options_are_found(self) -> None:
        assert {name: (setting.scope, setting.homes) for name, setting in self.found.items()} == {
            "weight": ("entry", (AnyModel,)),
            "steps": ("all", (PictureOptions,)),
            "sharpness": ("all", (Cropping,)),
            "voices": ("named", (SoundOptions,)),
            "echoes": ("all", (SoundOptions,)),
        }

    def test_their_names_are_derived(self) -> None:
        assert {name: (setting.names, setting.variables) for name, setting in self.found.items()} == {
            "weight": (("weight",), ()),
            "steps": (("steps", "num_steps"), ("PICTURE_STEPS",)),
            "sharpness": (("sharpness", "default_sharpness"), ()),
            "voices": (("voice", "voices"), ()),
            "echoes": (("echoes",), ()),
        }

    @pytest.mark.parametrize(
        ("name", "raw", "words"),
        [
            ("steps", "51", "must be an integer from 1 to 50, or 0, not '51'"),
            ("sharpness", "medium", "must be one of high, low, not 'medium'"),
            ("weight", "much", "must be a number, not 'much'"),
            ("voices", ",", "must be a list of names, not empty"),
        ],
    )
    def test_their_values_are_checked(self, name: str, raw: str, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            self.found[name].kind.read(raw)

    def test_they_are_documented(self) -> None:
        assert row(self.found["steps"]) == (
            "| `steps` | `--steps`, `ORCHARD_STEPS` | chosen for the model | The steps in which a picture is made. "
            "| `num_steps`, `PICTURE_STEPS` |"
        )
        assert row(self.found["sharpness"]) == (
            "| `sharpness` | `--sharpness`, `ORCHARD_SHARPNESS` | low | How sharp pictures are. One of high, low. "
            "| `default_sharpness` |"
        )
        assert [list(example_of(self.found[name], 118)) for name in ("steps", "weight", "voices", "echoes")] == [
            ["# The steps in which a picture is made. [default: chosen for the model]", "#steps: 20"],
            ["# Its share.", "#weight: 0.5"],
            ["# The voices.", "#voices: [some-name]"],
            ["# The echoes. [default: as many as fit]", "#echoes: 7"],
        ]

    def test_a_type_without_a_way_to_write_it_is_refused(self) -> None:
        strange = msgspec.defstruct("Strange", [("field", Annotated[bytes, setting("server", "Help.")])])
        with pytest.raises(TypeError, match="needs a kind"):
            list(settings_of(strange, "server"))

    def test_a_field_of_two_structs_is_one_setting_of_the_server_and_of_its_models(self) -> None:
        assert (settings_by_name()["ttl"].scope, settings_by_name()["ttl"].homes) == ("all", (ModelSettings, Settings))

    def test_two_structs_describe_a_field_in_the_same_way(self) -> None:
        other = msgspec.defstruct("Other", [("weight", Annotated[float, setting("memory", "Another share.")])])
        with pytest.raises(TypeError, match=r"Other\.weight is described differently"):
            build_table({AnyModel: "entry", other: "server"})
