"""The coding agents that `orchard agent` knows: what each one needs to work with a server, in a folder of its own.

The variables and fields were tried with the agents that `make test-clients` installs; Goose's are those of its
documentation.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, field

from orchard.cli.endpoint import ModelCard

# The key, for agents whose settings name the variable that has it.
KEY_VARIABLE = "ORCHARD_API_KEY"
_MOST_OUTPUT = 32_000


class Target(NamedTuple):
    """What an agent is to use. `url` has no /v1; `folder` is the agent's own folder."""

    url: str
    api_key: str
    model: ModelCard
    folder: Path

    @property
    def base_url(self) -> str:
        """The URL for OpenAI's APIs."""
        return f"{self.url}/v1"

    @property
    def output_tokens(self) -> int:
        """How many tokens of the context window an agent may plan for an answer."""
        return min((self.model.context_window or 0) // 4, _MOST_OUTPUT)

    def can(self, capability: str) -> bool:
        """Return whether the model has a capability: "tools", "thinking" or "vision"."""
        return capability in self.model.capabilities


class Profile(Struct, frozen=True):
    """How an agent is started: variables, JSON files by their paths in its folder, and arguments before the user's."""

    variables: dict[str, str]
    files: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


class Agent(NamedTuple):
    """A coding agent. Of the user's variables, it doesn't see those with one of the `prefixes`."""

    title: str
    program: str
    installation: str
    prefixes: tuple[str, ...]
    profile: Callable[[Target], Profile]
    calls_tools: bool = True


def claude_profile(target: Target) -> Profile:
    """Return the profile of Claude Code, which speaks Anthropic's Messages."""
    names = ("MODEL", "DEFAULT_FABLE_MODEL", "DEFAULT_OPUS_MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_HAIKU_MODEL")
    variables = {
        "CLAUDE_CONFIG_DIR": str(target.folder),
        "ANTHROPIC_BASE_URL": target.url,
        "ANTHROPIC_AUTH_TOKEN": target.api_key,
        **{f"ANTHROPIC_{name}": target.model.id for name in names},
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **_window_variable("CLAUDE_CODE_MAX_CONTEXT_TOKENS", target),  # otherwise it assumes a million
    }
    return Profile(variables, {".claude.json": {"hasCompletedOnboarding": True}})


def codex_profile(target: Target) -> Profile:
    """Return the profile of Codex, which speaks Responses. It writes into its own configuration file."""
    provider = {"name": "Orchard", "base_url": target.base_url, "wire_api": "responses", "env_key": KEY_VARIABLE}
    settings: dict[str, str | int] = {
        "model": target.model.id,
        "model_provider": "orchard",
        **{f"model_providers.orchard.{name}": value for name, value in provider.items()},
    }
    if target.model.context_window:
        settings["model_context_window"] = target.model.context_window
    # JSON's strings and numbers are TOML's.
    arguments = [part for name, value in settings.items() for part in ("--config", f"{name}={json.dumps(value)}")]
    return Profile({"CODEX_HOME": str(target.folder), KEY_VARIABLE: target.api_key}, arguments=arguments)


def opencode_profile(target: Target) -> Profile:
    """Return the profile of opencode, with Chat Completions. It reads the user's own configuration before this one.

    Only another XDG_CONFIG_HOME could prevent that, and would hide the configuration of the programs that it runs.
    """
    model: dict[str, Any] = {"name": target.model.id, "reasoning": target.can("thinking")}
    if target.can("vision"):
        model |= {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
    if target.model.context_window:
        model["limit"] = {"context": target.model.context_window, "output": target.output_tokens}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Orchard",
        "options": {"baseURL": target.base_url, "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": {target.model.id: model},
    }
    name = f"orchard/{target.model.id}"
    config = {"model": name, "small_model": name, "provider": {"orchard": provider}}
    variables = {
        "OPENCODE_CONFIG_DIR": str(target.folder),
        "OPENCODE_DB": str(target.folder / "opencode.db"),
        KEY_VARIABLE: target.api_key,
    }
    return Profile(variables, {"opencode.json": config})


def qwen_profile(target: Target) -> Profile:
    """Return the profile of Qwen Code, with Chat Completions."""
    variables = {
        "QWEN_HOME": str(target.folder),
        "OPENAI_BASE_URL": target.base_url,
        "OPENAI_API_KEY": target.api_key,
        "OPENAI_MODEL": target.model.id,
    }
    model: dict[str, Any] = {"name": target.model.id}
    if target.model.context_window:
        model["generationConfig"] = {"contextWindowSize": target.model.context_window}
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "model": model,
        "privacy": {"usageStatisticsEnabled": False},
    }
    return Profile(variables, {"settings.json": settings})


def cline_profile(target: Target) -> Profile:
    """Return the profile of Cline, with Chat Completions."""
    settings: dict[str, Any] = {
        "provider": "openai-compatible",
        "apiKey": target.api_key,
        "model": target.model.id,
        "baseUrl": target.base_url,
    }
    if target.model.context_window:
        settings["contextWindow"] = target.model.context_window
    # Without one of these fields, Cline takes no notice of the file.
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    providers: dict[str, Any] = {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {"openai-compatible": provider},
    }
    files = {
        "data/settings/providers.json": providers,
        "data/settings/global-settings.json": {"telemetryOptOut": True},
    }
    # Otherwise, a process of its own stays behind, or one of the user's own sessions answers.
    return Profile({"CLINE_DIR": str(target.folder), "CLINE_SESSION_BACKEND_MODE": "local"}, files)


def continue_profile(target: Target) -> Profile:
    """Return the profile of Continue, with Chat Completions. JSON is YAML."""
    model: dict[str, Any] = {
        "name": target.model.id,
        "provider": "openai",
        "model": target.model.id,
        "apiBase": target.base_url,
        "apiKey": target.api_key,
        "capabilities": ["tool_use", *(["image_input"] if target.can("vision") else [])],
    }
    if target.model.context_window:
        model["defaultCompletionOptions"] = {
            "contextLength": target.model.context_window,
            "maxTokens": target.output_tokens,
        }
    config = {"name": "Orchard", "version": "1.0.0", "schema": "v1", "models": [model]}
    variables = {"CONTINUE_GLOBAL_DIR": str(target.folder), "CONTINUE_CLI_ENABLE_TELEMETRY": "0"}
    return Profile(variables, {"config.yaml": config}, ["--config", str(target.folder / "config.yaml")])


def aider_profile(target: Target) -> Profile:
    """Return the profile of aider, which speaks Chat Completions through LiteLLM and calls no tools."""
    name = f"openai/{target.model.id}"
    metadata: dict[str, Any] = {"litellm_provider": "openai", "mode": "chat"}
    if target.model.context_window:
        metadata |= {"max_input_tokens": target.model.context_window, "max_output_tokens": target.output_tokens}
    variables = {
        "AIDER_MODEL": name,
        "AIDER_WEAK_MODEL": name,
        "AIDER_OPENAI_API_BASE": target.base_url,
        "AIDER_OPENAI_API_KEY": target.api_key,
        "AIDER_MODEL_METADATA_FILE": str(target.folder / "metadata.json"),
        "AIDER_ANALYTICS": "false",
    }
    return Profile(variables, {"metadata.json": {name: metadata}})


def goose_profile(target: Target) -> Profile:
    """Return the profile of Goose, with Chat Completions."""
    variables = {
        "GOOSE_PATH_ROOT": str(target.folder),
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": target.model.id,
        "GOOSE_DISABLE_KEYRING": "1",
        "OPENAI_BASE_URL": target.base_url,
        "OPENAI_API_KEY": target.api_key,
        **_window_variable("GOOSE_CONTEXT_LIMIT", target),
    }
    return Profile(variables)


def pi_profile(target: Target) -> Profile:
    """Return the profile of Pi, with Chat Completions."""
    model: dict[str, Any] = {
        "id": target.model.id,
        "reasoning": target.can("thinking"),
        "input": ["text", *(["image"] if target.can("vision") else [])],
    }
    if target.model.context_window:
        model |= {"contextWindow": target.model.context_window, "maxTokens": target.output_tokens}
    provider = {
        "baseUrl": target.base_url,
        "api": "openai-completions",
        "apiKey": f"${KEY_VARIABLE}",
        "models": [model],
    }
    files: dict[str, dict[str, Any]] = {
        "models.json": {"providers": {"orchard": provider}},
        "settings.json": {"defaultProvider": "orchard", "defaultModel": target.model.id},
    }
    variables = {"PI_CODING_AGENT_DIR": str(target.folder), "PI_TELEMETRY": "0", KEY_VARIABLE: target.api_key}
    return Profile(variables, files)


def _window_variable(name: str, target: Target) -> dict[str, str]:
    window = target.model.context_window
    return {name: str(window)} if window else {}


AGENTS = {
    "claude": Agent(
        "Claude Code",
        "claude",
        "npm install -g @anthropic-ai/claude-code",
        ("ANTHROPIC_", "CLAUDE"),
        claude_profile,
    ),
    "codex": Agent("Codex", "codex", "npm install -g @openai/codex", ("CODEX_", "OPENAI_"), codex_profile),
    "opencode": Agent("opencode", "opencode", "npm install -g opencode-ai", ("OPENCODE_",), opencode_profile),
    "qwen": Agent("Qwen Code", "qwen", "npm install -g @qwen-code/qwen-code", ("OPENAI_", "QWEN_"), qwen_profile),
    "cline": Agent("Cline", "cline", "npm install -g cline", ("CLINE_",), cline_profile),
    "continue": Agent("Continue", "cn", "npm install -g @continuedev/cli", ("CONTINUE_",), continue_profile),
    "aider": Agent(
        "aider",
        "aider",
        "uv tool install --python 3.12 aider-chat",
        ("AIDER_", "OPENAI_"),
        aider_profile,
        calls_tools=False,
    ),
    "goose": Agent("Goose", "goose", "see https://github.com/aaif-goose/goose", ("GOOSE_", "OPENAI_"), goose_profile),
    "pi": Agent("Pi", "pi", "npm install -g @earendil-works/pi-coding-agent", ("PI_",), pi_profile),
}
"""By the name that `orchard agent` takes."""
