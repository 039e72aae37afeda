"""One stream over HTTP, compared with mlx-lm's own loop, in turn on the same machine and model.

raw: `mlx_lm.stream_generate` in this process, greedy. http: the server, streamed, greedy, same prompt and tokens.
Both count from the first token to the last, which leaves out prefill and connection set-up. Prints one JSON line with
medians, the median of the pairwise ratios http/raw, and the seconds that mlx-lm takes to load the model.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
from tests.support.serving import serve

from orchard.gateway.models.registry import resolve_model

_PROMPT = "Count from 1 to 150."


def _rate(stamps: list[float]) -> float:
    return (len(stamps) - 1) / (stamps[-1] - stamps[0])


def raw_server(path: str, tokens: int) -> "subprocess.Popen[str]":
    """A process that generates once for each line it is sent, and prints the tokens per second."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.single_stream", "--raw", path, "--tokens", str(tokens)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def raw(path: str, tokens: int) -> None:
    from mlx_lm import load, stream_generate

    begin = time.perf_counter()
    model, tokenizer = load(path)[:2]
    print(json.dumps({"load_s": round(time.perf_counter() - begin, 3)}), flush=True)
    messages = [{"role": "user", "content": _PROMPT}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, enable_thinking=False)
    for _ in sys.stdin:
        stamps = [time.perf_counter() for _ in stream_generate(model, tokenizer, prompt, max_tokens=tokens)]
        print(json.dumps({"tokens": len(stamps), "tokens_s": _rate(stamps)}), flush=True)


def stream(url: str, model: str, prompt: str, tokens: int) -> dict[str, Any]:
    """Stream one greedy answer; return its tokens, and its tokens a second from the first chunk to the last."""
    body = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": tokens,
        "temperature": 0,
        "messages": [{"role": "user", "content": prompt}],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    stamps = []
    usage: dict[str, Any] = {}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=120) as response:
        for chunk in _chunks(response.iter_lines()):
            if chunk["choices"] and chunk["choices"][0]["delta"].get("content"):
                stamps.append(time.perf_counter())
            usage = chunk.get("usage") or usage
    # A chunk may hold several tokens; those between the first and the last chunk are what took the time.
    seconds = stamps[-1] - stamps[0]
    return {"tokens": usage["completion_tokens"], "tokens_s": (usage["completion_tokens"] - 1) / seconds}


def _chunks(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    return (json.loads(line[6:]) for line in lines if line.startswith("data: {"))


def measure(name: str, tokens: int, runs: int) -> None:
    entry = resolve_model(name)
    rows = []
    with serve([entry]) as server, raw_server(entry.path, tokens) as process:
        assert process.stdin
        assert process.stdout
        load = json.loads(process.stdout.readline())
        for _ in range(runs + 1):
            process.stdin.write("go\n")
            process.stdin.flush()
            rows.append((json.loads(process.stdout.readline()), stream(server.url, entry.id, _PROMPT, tokens)))
        process.stdin.close()
    rows = rows[1:]  # the first warms both up
    raws, https = ([row[side]["tokens_s"] for row in rows] for side in (0, 1))
    ratio = statistics.median(two / one for one, two in zip(raws, https, strict=True))
    medians = {"raw_tokens_s": round(statistics.median(raws), 1), "http_tokens_s": round(statistics.median(https), 1)}
    counts = {"raw_tokens": rows[0][0]["tokens"], "http_tokens": rows[0][1]["tokens"]}
    label = Path(name).name
    row = {"benchmark": "single stream", "model": label, **load, **medians, "ratio": round(ratio, 3), **counts}
    print(json.dumps(row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--raw", metavar="PATH", help="used internally by the benchmark")
    args = parser.parse_args()
    if args.raw:
        raw(args.raw, args.tokens)
    else:
        measure(args.model, args.tokens, args.runs)


if __name__ == "__main__":
    main()
