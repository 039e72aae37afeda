"""The examples of Ollama's own page on its API, and what the answers to them have.

https://github.com/ollama/ollama/blob/main/docs/api.md. Texts of prompts and pictures are shortened.
"""

from typing import Any, NamedTuple

NAMES = ("llama3.2", "llama3.1:8b", "llama3.1", "codellama:code", "llava", "mistral", "deepseek-r1")
SKY = [{"role": "user", "content": "why is the sky blue?"}]
AGE = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "available": {"type": "boolean"}},
    "required": ["age", "available"],
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather for a location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The location to get the weather for"},
                "format": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["location", "format"],
        },
    },
}
OPTIONS = {
    "num_keep": 5,
    "seed": 42,
    "num_predict": 100,
    "top_k": 20,
    "top_p": 0.9,
    "min_p": 0.0,
    "repeat_last_n": 33,
    "temperature": 0.8,
    "repeat_penalty": 1.2,
    "presence_penalty": 1.5,
    "frequency_penalty": 1.0,
    "penalize_newline": True,
    "stop": ["\n", "user:"],
    "numa": False,
    "num_ctx": 1024,
    "num_batch": 2,
    "num_gpu": 1,
    "main_gpu": 0,
    "low_vram": False,
    "vocab_only": False,
    "use_mmap": True,
    "use_mlock": False,
    "num_thread": 8,
}
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
STATISTICS = {
    *("total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration"),
    *("eval_count", "eval_duration"),
}
HEAD = {"model", "created_at", "done"}
CHAT_END = HEAD | {"message", "done_reason"}
GENERATE_END = HEAD | {"response", "done_reason"}
DETAILS = {"parent_model", "format", "family", "families", "parameter_size", "quantization_level"}


class Example(NamedTuple):
    """A request of the page. `pieces`: the fields of each line before the last one; None: it is no stream.

    `fields`: those of the answer, or of the last line.
    """

    path: str
    body: dict[str, Any]
    fields: set[str]
    pieces: set[str] | None = None


GENERATE, CHAT = "/api/generate", "/api/chat"
GENERATE_PIECE, CHAT_PIECE = HEAD | {"response"}, HEAD | {"message"}
WHOLE = {"stream": False}
GENERATED, ANSWERED = GENERATE_END | STATISTICS, CHAT_END | STATISTICS
WITH_CONTEXT = GENERATED | {"context"}

EXAMPLES = {
    "generate, streaming": Example(
        GENERATE, {"model": "llama3.2", "prompt": "Why is the sky blue?"}, WITH_CONTEXT, GENERATE_PIECE
    ),
    "generate, no streaming": Example(GENERATE, {"model": "llama3.2", "prompt": "Why?", **WHOLE}, WITH_CONTEXT),
    "generate, suffix": Example(
        GENERATE,
        {
            "model": "codellama:code",
            "prompt": "def compute_gcd(a, b):",
            "suffix": "    return result",
            "options": {"temperature": 0},
            **WHOLE,
        },
        GENERATED,
    ),
    "generate, structured outputs": Example(
        GENERATE, {"model": "llama3.1:8b", "prompt": "Respond using JSON", **WHOLE, "format": AGE}, WITH_CONTEXT
    ),
    "generate, JSON mode": Example(
        GENERATE, {"model": "llama3.2", "prompt": "Respond using JSON", "format": "json", **WHOLE}, WITH_CONTEXT
    ),
    "generate, images": Example(
        GENERATE, {"model": "llava", "prompt": "What is in this picture?", **WHOLE, "images": [PNG]}, WITH_CONTEXT
    ),
    "generate, raw": Example(
        GENERATE, {"model": "mistral", "prompt": "[INST] why? [/INST]", "raw": True, **WHOLE}, GENERATED
    ),
    "generate, reproducible": Example(
        GENERATE, {"model": "mistral", "prompt": "Why?", "options": {"seed": 123}}, WITH_CONTEXT, GENERATE_PIECE
    ),
    "generate, options": Example(
        GENERATE, {"model": "llama3.2", "prompt": "Why?", **WHOLE, "options": OPTIONS}, WITH_CONTEXT
    ),
    "generate, load": Example(GENERATE, {"model": "llama3.2"}, GENERATE_END),
    "chat, streaming": Example(CHAT, {"model": "llama3.2", "messages": SKY}, ANSWERED, CHAT_PIECE),
    "chat, no streaming": Example(CHAT, {"model": "llama3.2", "messages": SKY, **WHOLE}, ANSWERED),
    "chat, structured outputs": Example(
        CHAT,
        {"model": "llama3.1", "messages": SKY, **WHOLE, "format": AGE, "options": {"temperature": 0}},
        ANSWERED,
    ),
    "chat, history": Example(
        CHAT,
        {
            "model": "llama3.2",
            "messages": [
                *SKY,
                {"role": "assistant", "content": "due to rayleigh scattering."},
                {"role": "user", "content": "how is that different than mie scattering?"},
            ],
        },
        ANSWERED,
        CHAT_PIECE,
    ),
    "chat, images": Example(
        CHAT,
        {"model": "llava", "messages": [{"role": "user", "content": "what is in this image?", "images": [PNG]}]},
        ANSWERED,
        CHAT_PIECE,
    ),
    "chat, reproducible": Example(
        CHAT,
        {"model": "llama3.2", "messages": SKY, "options": {"seed": 101, "temperature": 0}},
        ANSWERED,
        CHAT_PIECE,
    ),
    "chat, tools": Example(CHAT, {"model": "llama3.2", "messages": SKY, **WHOLE, "tools": [WEATHER]}, ANSWERED),
    "chat, tools, streaming": Example(
        CHAT, {"model": "llama3.2", "messages": SKY, "stream": True, "tools": [WEATHER]}, ANSWERED, CHAT_PIECE
    ),
    "chat, history with tools": Example(
        CHAT,
        {
            "model": "llama3.2",
            "messages": [
                {"role": "user", "content": "what is the weather in Toronto?"},
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "get_current_weather", "arguments": {"location": "Toronto"}}}],
                },
                {"role": "tool", "content": "11 degrees celsius", "tool_name": "get_current_weather"},
            ],
            **WHOLE,
            "tools": [WEATHER],
        },
        ANSWERED,
    ),
    "chat, load": Example(CHAT, {"model": "llama3.2", "messages": []}, CHAT_END),
    "show": Example(
        "/api/show",
        {"model": "llava"},
        {"modelfile", "parameters", "template", "details", "model_info", "capabilities", "modified_at"},
    ),
}
