"""How a text model is run: options that the gateway passes to a worker, and the worker to its engine."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from orchard.core.request import LoadOptions
from orchard.core.setting import (
    EmbeddingsTruncate,
    ExistingFolder,
    Folder,
    Name,
    Natural,
    Positive,
    QueueSize,
    Size,
    other_names,
    setting,
    value_kind,
    when_unset,
)

Share = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2), when_unset(example="0")]
Window = Annotated[int, Meta(ge=0), when_unset(example="0")]
ExistingFile = Annotated[str, value_kind("existing file")]
ExistingFiles = Annotated[tuple[str, ...], value_kind("existing files")]


Batching = Literal["together", "by_length", "in_turn"]
"""How a model's rows are decoded: all in one pass, rows of similar length in one pass, or one after the other."""


class SamplingDefaults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tokens are sampled if a request doesn't say; None: as the model's generation_config.json says.

    `core.tasks.generate.Sampling` explains the names.
    """

    temperature: Annotated[
        Annotated[float, Meta(ge=0, le=2)] | None,
        setting("requests", "How random answers are; 0 always picks the most likely token."),
        other_names("temp"),
        when_unset(example="0.7"),
    ] = None
    top_p: Annotated[
        Share | None,
        setting("requests", "Sample only from the most likely tokens that together have this probability."),
        when_unset(example="0.95"),
    ] = None
    top_k: Annotated[
        Natural | None,
        setting("requests", "Sample only from this many of the most likely tokens; 0 means all."),
        when_unset(example="20"),
    ] = None
    min_p: Annotated[
        Share | None,
        setting("requests", "Sample only from tokens that are at least this fraction as likely as the top token."),
        when_unset(example="0"),
    ] = None
    repetition_penalty: Annotated[
        Annotated[float, Meta(gt=0, le=10)] | None,
        setting("requests", "A value above 1 makes tokens that occurred before less likely."),
        when_unset(example="1.05"),
    ] = None
    repetition_context_size: Annotated[
        Window | None,
        setting("requests", "How many of the last tokens the repetition penalty looks at; 0 means all."),
    ] = None
    presence_penalty: Annotated[
        Penalty | None, setting("requests", "The penalty for tokens that are already in the answer.")
    ] = None
    presence_context_size: Annotated[
        Window | None,
        setting("requests", "How many of the last tokens the presence penalty looks at; 0 means all."),
    ] = None
    frequency_penalty: Annotated[
        Penalty | None, setting("requests", "The penalty for each time that a token is already in the answer.")
    ] = None
    frequency_context_size: Annotated[
        Window | None,
        setting("requests", "How many of the last tokens the frequency penalty looks at; 0 means all."),
    ] = None
    xtc_probability: Annotated[
        Share | None,
        setting("requests", "The probability that XTC drops all likely tokens except the least likely of them."),
        when_unset(example="0"),
    ] = None
    xtc_threshold: Annotated[
        Annotated[float, Meta(ge=0, le=0.5)] | None,
        setting("requests", "The smallest probability at which XTC counts a token as likely."),
        when_unset(example="0.1"),
    ] = None
    seed: Annotated[
        int | None,
        setting("requests", "The seed of the random numbers; a request with the same seed gets the same answer."),
        when_unset(example="1"),
    ] = None


class TextOptions(LoadOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes are in bytes or tokens; None: decided from the model and the machine."""

    adapter_path: Annotated[
        ExistingFolder | None,
        setting(
            "models",
            "A folder with LoRA weights for the model, in the format of mlx-lm (or of mlx-vlm for vision models).",
            scope="named",
        ),
        other_names("PRELOAD_ADAPTER", "MLX_VLM_PRELOAD_ADAPTER"),
    ] = None
    embeddings: Annotated[
        bool,
        setting("models", "Whether a model that generates text also gives embeddings: its last hidden states."),
    ] = False
    embeddings_truncate: EmbeddingsTruncate = False
    context_length: Annotated[
        Positive | None,
        setting("prompts", "The most tokens that a prompt and its answer together may have."),
        when_unset("the model's own limit", example="32768"),
    ] = None
    chat_template_file: Annotated[
        ExistingFile | None, setting("prompts", "A file with a chat template to use instead of the model's own.")
    ] = None
    enable_thinking: Annotated[
        bool | None,
        setting("requests", "Whether the model reasons (thinks) before it answers."),
        other_names("MLX_VLM_ENABLE_THINKING"),
        when_unset("the default of its chat template", example="true"),
    ] = None
    thinking_budget: Annotated[
        Natural | None,
        setting("requests", "The most tokens of reasoning before the answer must begin; 0 turns reasoning off."),
        other_names("MLX_VLM_THINKING_BUDGET"),
        when_unset("no limit", example="2048"),
    ] = None
    max_tokens: Annotated[
        Positive | None,
        setting("requests", "The most tokens in an answer."),
        other_names("MLX_VLM_MAX_TOKENS"),
        when_unset("the model's, or the rest of the context length", example="4096"),
    ] = None
    defaults: SamplingDefaults = SamplingDefaults()
    """How tokens are sampled if a request does not say."""
    tool_call_parser: Annotated[
        Annotated[str, value_kind("tool_call_parser")] | None,
        setting("prompts", "The format in which the model writes tool calls, such as qwen3_coder or mistral."),
        when_unset("detected from the chat template", example="hermes"),
    ] = None
    reasoning_parser: Annotated[
        Annotated[str, value_kind("reasoning_parser")] | None,
        setting("prompts", "The format of the model's reasoning, such as qwen3; none leaves reasoning in the answer."),
        when_unset("detected from the chat template", example="qwen3"),
    ] = None
    message_converter: Annotated[
        Annotated[str, value_kind("message_converter")] | None,
        setting("prompts", "The form in which the chat template expects tool calls, such as glm4_moe or mistral."),
        when_unset("detected from the chat template", example="qwen3"),
    ] = None
    decode_concurrency: Annotated[
        Positive,
        setting("concurrency", "The most answers that a model generates at once; further requests wait."),
        other_names("batch_completion_size", "max_num_seqs", "MLX_VLM_MAX_NUM_SEQS"),
    ] = 64
    queue_size: QueueSize = 1024
    prefill_step_size: Annotated[
        Positive | None,
        setting("concurrency", "The most prompt tokens to prefill in a step while answers are being generated."),
        other_names("batch_prefill_step_size", "PREFILL_STEP_SIZE"),
        when_unset("chosen for the device", example="512"),
    ] = None
    max_token_gap: Annotated[
        Annotated[float, Meta(ge=0.001, le=3600)],
        setting(
            "concurrency",
            "The most seconds between two tokens of an answer while prompts are prefilled, where the device is fast "
            "enough. prefill_step_size overrides it.",
        ),
    ] = 0.06
    prompt_concurrency: Annotated[
        Positive | None,
        setting("concurrency", "The most prompts to prefill at once."),
        other_names("batch_prefill_size"),
        when_unset("chosen for the device", example="4"),
    ] = None
    speculation: Annotated[
        Literal["auto", "off"],
        setting(
            "concurrency",
            "Guess the next tokens from earlier text, with a draft model or an MTP head, and verify several in one "
            "step: auto does so when it is faster. The answers are the same.",
        ),
    ] = "auto"
    ranks: Annotated[
        Annotated[int, Meta(ge=1, le=64)],
        setting(
            "models",
            "Split the model among this many processes of this machine: on its CPU, or each on a GPU of its own.",
            scope="named",
        ),
    ] = 1
    hosts: Annotated[
        Annotated[str, value_kind("hostfile")] | None,
        setting(
            "models",
            "Split the model among the hosts of this file, in the format of mlx.launch; the first is this machine.",
            scope="named",
        ),
        when_unset("this machine alone", example="./hosts.json"),
    ] = None
    backend: Annotated[
        Literal["ring", "jaccl", "nccl"] | None,
        setting(
            "models",
            "What connects ranks: TCP (ring), RDMA over Thunderbolt (jaccl), or NVIDIA's library (nccl).",
            scope="named",
        ),
        when_unset("as the hostfile says; else nccl on CUDA, jaccl if the hostfile has rdma, or ring", example="ring"),
    ] = None
    local_share: float = 1.0
    """The part of the weights that is loaded on this machine, about."""
    rank_share: float = 1.0
    """The part of the weights that each rank loads, about."""
    parallel: Annotated[
        Literal["tensor", "pipeline"] | None,
        setting(
            "models",
            "How the model is split among ranks: each has a part of every layer (tensor), or some of the layers "
            "(pipeline).",
            scope="named",
        ),
        when_unset("over the ring a pipeline if possible, else tensor if possible", example="tensor"),
    ] = None
    draft_model_path: Annotated[
        Name | None,
        setting(
            "models",
            "A draft model, which guesses the next tokens: a smaller model with the same tokenizer, or a drafter "
            "with the model's MTP head. A folder or a Hugging Face id.",
            scope="named",
        ),
        other_names("draft_model"),
        when_unset("no draft model", example="mlx-community/Qwen3-0.6B-4bit"),
    ] = None
    num_draft_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=15)] | None,
        setting("models", "The most tokens that the draft model or the MTP head guesses in a step.", scope="named"),
        when_unset("2", example="4"),
    ] = None
    max_kv_size: Annotated[
        Annotated[int, Meta(ge=5)] | None,
        setting(
            "cache",
            "The most tokens in the KV cache of an answer. Older ones are dropped, except for the first four. "
            "0 means no limit. It can't be combined with kv_bits.",
            zero_is_none=True,
        ),
        other_names("MAX_KV_SIZE"),
        when_unset("no limit", example="8192"),
    ] = None
    kv_bits: Annotated[
        Literal[2, 3, 4, 6, 8] | None,
        setting(
            "cache",
            "Quantise the KV cache to this many bits; 0 means no quantisation. It can't be combined with "
            "max_kv_size. If a model can't use a quantised KV cache, its cache is not quantised, and the log says why.",
            zero_is_none=True,
        ),
        other_names("KV_BITS"),
        when_unset("not quantised", example="8"),
    ] = None
    kv_group_size: Annotated[
        Literal[32, 64, 128],
        setting("cache", "How many values of the KV cache are quantised as one group."),
        other_names("KV_GROUP_SIZE"),
    ] = 64
    quantized_kv_start: Annotated[
        Natural,
        setting("cache", "Quantise the KV cache only in sequences of at least this many tokens."),
        other_names("QUANTIZED_KV_START"),
    ] = 0
    prompt_cache_bytes: Annotated[
        Size | None,
        setting("cache", "The most memory for a model's cached prompts; 0 turns the prompt cache off."),
        other_names("prompt_cache_max_bytes", "max_bytes"),
        when_unset("a quarter of the memory that the weights leave", example="4GB"),
    ] = None
    """At most half of the memory that the weights leave."""
    prompt_cache_size: Annotated[
        Positive | None,
        setting("cache", "The most cached prompts in memory; prompts that continue one another count as one."),
        when_unset("as many as fit", example="100"),
    ] = None
    prompt_cache_shared: Annotated[
        ExistingFiles,
        setting(
            "cache",
            "A file with a text, such as a system prompt, that all keys share in the prompt cache where prompts begin "
            "with it; may be repeated.",
        ),
    ] = ()
    prompt_cache_dir: Annotated[
        Folder | None, setting("cache", "A folder that keeps cached prompts when the server stops.")
    ] = None
    prompt_cache_dir_bytes: Annotated[
        Size, setting("cache", "The most disk space for the cached prompts of each model.")
    ] = 10 * 2**30

    def loaded_bytes(self, size_bytes: int, kept_bytes: int, *, on_device: bool = False) -> int:
        """See `LoadOptions`."""
        return int(size_bytes * (self.rank_share if on_device else self.local_share))

    @property
    def is_split(self) -> bool:
        """Whether the model is split among several ranks."""
        return self.ranks > 1 or self.hosts is not None

    @property
    def speculates(self) -> bool:
        """Whether tokens are guessed: never in a model that is split among ranks."""
        return self.speculation == "auto" and not self.is_split

    @property
    def draft(self) -> str | None:
        """The draft model to use; None: none is configured, or speculation is off."""
        return self.draft_model_path if self.speculates else None

    @property
    def saves_files(self) -> bool:
        """Whether prompts are written to files when the model is unloaded."""
        return self.prompt_cache_dir is not None

    @property
    def ends_process(self) -> bool:
        """Whether the process can load no other model: MLX connects a process to other ranks only once."""
        return self.is_split

    def __post_init__(self) -> None:
        """Raise ValueError if one option would be ignored because of another."""
        if self.hosts and self.ranks > 1:
            raise ValueError("ranks can't be combined with hosts, because the hostfile says how many there are")
        for name in ("adapter_path", "draft_model_path", "kv_bits") if self.is_split else ():
            if getattr(self, name):
                raise ValueError(f"{name} can't be combined with {'hosts' if self.hosts else 'ranks above 1'}")
        for name in ("parallel", "backend"):
            if getattr(self, name) and not self.is_split:
                raise ValueError(f"{name} needs hosts, or ranks above 1")
        if self.kv_bits and self.max_kv_size:
            raise ValueError("kv_bits and max_kv_size can't be combined: a bounded cache is not quantised")
        if self.enable_thinking and self.thinking_budget == 0:
            raise ValueError("enable_thinking can't be combined with a thinking_budget of 0, which turns thinking off")
        if self.prompt_cache_dir and self.prompt_cache_bytes == 0:
            raise ValueError("prompt_cache_dir needs prompt_cache_bytes above 0, because files are written from memory")
