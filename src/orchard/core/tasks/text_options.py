"""How a text model is run: what the gateway passes to a worker and the worker to its engine."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(ge=1)]
Natural = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]


Batching = Literal["together", "by_length", "in_turn"]
"""How a model's rows are decoded: all in one pass, those of like length in one pass, or one after the other."""


class SamplingDefaults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tokens are drawn where a request says nothing; None: as the model's generation_config.json says.

    The names are those of `core.tasks.generate.Sampling`, which says what they mean.
    """

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Share | None = None
    top_k: Natural | None = None
    min_p: Share | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=10)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    xtc_probability: Share | None = None
    xtc_threshold: Annotated[float, Meta(ge=0, le=0.5)] | None = None
    repetition_context: Natural | None = None
    presence_context: Natural | None = None
    frequency_context: Natural | None = None
    seed: int | None = None


class TextOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are in bytes or tokens; None: decided from the model and the machine."""

    adapter_path: str | None = None
    """A folder with LoRA weights in mlx-lm's format, fixed for the life of the worker."""
    context_length: Positive | None = None
    """Tokens that prompt and answer may have together, where that is less than the model was made for."""
    chat_template_file: str | None = None
    """A file with the chat template that is used in place of the model's own."""
    enable_thinking: bool | None = None
    """Whether the model thinks where a request does not say; None: as its chat template has it."""
    thinking_budget: Natural | None = None
    """Tokens of reasoning after which the answer must begin, where a request does not say; 0: the model doesn't think;
    None: no limit."""
    default_max_tokens: Positive | None = None
    """Tokens of an answer where a request does not say; None: as the model's generation_config.json says
    (`max_new_tokens`), else what the context window leaves."""
    defaults: SamplingDefaults = SamplingDefaults()
    """How tokens are drawn where a request does not say."""
    tool_call_parser: str | None = None
    """How the model writes tool calls, by a name that vLLM or mlx-openai-server has for it."""
    reasoning_parser: str | None = None
    """How it writes its reasoning, likewise."""
    message_converter: str | None = None
    """How its chat template takes earlier calls and their results, likewise; None: found out by trying."""
    max_rows: Positive = 64
    """Answers that are generated at once; further requests wait."""
    max_waiting: Positive = 1024
    """Requests that may wait; one more is refused."""
    prefill_chunk: Positive | None = None
    """Prompt tokens read in one step while answers are being generated."""
    prompts_at_once: Positive | None = None
    """Prompts of which a step reads a piece at most."""
    max_kv_size: Annotated[int, Meta(ge=5)] | None = None
    """Tokens that an answer can look back on; older ones are forgotten, all but the first four."""
    kv_bits: Literal[2, 3, 4, 6, 8] | None = None
    """Keys and values are kept in this many bits; None: as the model computes them."""
    kv_group_size: Literal[32, 64, 128] = 64
    quantized_kv_start: Annotated[int, Meta(ge=0)] = 0
    """Sequences shorter than this keep their keys and values unquantised."""
    memory_limit: Positive | None = None
    """What weights, keys and values, and cached prompts may take together; None: what the device recommends."""
    prompt_cache_bytes: Annotated[int, Meta(ge=0)] | None = None
    """What cached prompts may take of the memory, and at most half of what the weights leave; 0: nothing is cached."""
    prompt_cache_entries: Positive | None = None
    """Cached prompts in memory at most, one that goes on with another counted as one; None: as many as fit."""
    prompt_cache_dir: str | None = None
    """A folder where cached prompts outlive the worker; None: they don't."""
    prompt_cache_dir_bytes: Annotated[int, Meta(ge=0)] = 10 * 2**30

    def __post_init__(self) -> None:
        """ValueError where one option would be ignored because of another."""
        if self.kv_bits and self.max_kv_size:
            raise ValueError("kv_bits and max_kv_size don't go together: a bounded cache is not quantised")
        if self.enable_thinking and self.thinking_budget == 0:
            raise ValueError("enable_thinking and a thinking_budget of 0 don't go together: 0 turns the thinking off")
        if self.prompt_cache_dir and self.prompt_cache_bytes == 0:
            raise ValueError("prompt_cache_dir needs prompt_cache_bytes above 0: files are written from memory")
