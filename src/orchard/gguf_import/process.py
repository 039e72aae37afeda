"""The process that imports one model: `python -m orchard.gguf_import.process`, with an `ImportJob` as JSON on stdin.

It reports on stdout in lines of JSON. It writes into the job's folder, which exists and is empty; whoever starts it
renames or deletes that folder. It ends when its stdin is closed, because its parent has died or has cancelled it.
"""

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import msgspec

from orchard.core.errors import catch_panics, short_message
from orchard.gguf_import import header
from orchard.gguf_import.accuracy import TEXT, measure_accuracy
from orchard.gguf_import.architectures import Architecture, Config, read_architecture
from orchard.gguf_import.header import GgufModel, UnusableFileError
from orchard.gguf_import.tokenizer import TokenizerParts, make_tokenizer
from orchard.gguf_import.weights import Weight, WeightsFile, describe_quantization, plan_weights, size_of
from orchard.gguf_job import ImportJob, ImportReport

_REPORT_SECONDS = 0.1
_WEIGHTS = "model.safetensors"
_SAMPLING = {
    "temperature": ("temperature", "general.sampling.temp"),
    "top_p": ("top_p", "general.sampling.top_p"),
    "top_k": ("top_k", "general.sampling.top_k"),
    "min_p": ("min_p", "general.sampling.min_p"),
    "repetition_penalty": ("repeat_penalty", "general.sampling.penalty_repeat"),
}
"""Of generation_config.json: the names in Ollama's parameters and in metadata."""

Report = Callable[[ImportReport], None]


def import_model(job: ImportJob, report: Report) -> list[str]:
    """Write a job's model, and return what its user should know. Raise OSError or UnusableFileError."""
    folder = Path(job.folder)
    model = header.read_model([Path(file) for file in job.files])
    architecture, config = read_architecture(model)
    stops = [stop for stop in job.parameters.get("stop", []) if isinstance(stop, str)]
    parts = make_tokenizer(model.metadata, config["vocab_size"], stops, job.system)
    weights = plan_weights(model, architecture, config, job.bits)
    dtype = _choose_dtype(architecture, weights, is_exact=job.exact)
    config |= describe_quantization(weights)
    config |= {"eos_token_id": parts.end_ids, "torch_dtype": str(dtype).removeprefix("mlx.core.")}
    if (needed := size_of(weights, dtype)) > (free := shutil.disk_usage(folder).free):
        raise UnusableFileError(f"{needed / 1e9:.1f} GB are needed, and {free / 1e9:.1f} GB are free in {folder}")
    _write_weights(folder, weights, dtype, report)
    _write_texts(folder, config, parts, model, job)
    report(ImportReport(note="measuring the error of its logits"))
    tokens = parts.tokenizer.encode(TEXT)
    return [str(measure_accuracy(folder / _WEIGHTS, config, weights, tokens)), *_notes(parts, stops, dtype)]


def _choose_dtype(architecture: Architecture, weights: list[Weight], *, is_exact: bool) -> mx.Dtype:
    """Return the type of scales and of weights that aren't quantised, which is the one that the model computes in."""
    if is_exact:
        return mx.float32
    is_wide = any(weight.tensor.kind.name == "BF16" for weight in weights)
    return mx.float16 if architecture.is_half_enough and not is_wide else mx.bfloat16


def _write_weights(folder: Path, weights: list[Weight], dtype: mx.Dtype, report: Report) -> None:
    total = sum(weight.tensor.rows * weight.tensor.row_bytes for weight in weights)
    count, last = 0, 0.0

    def on_rows(size: int) -> None:
        nonlocal count, last
        count += size
        if time.monotonic() - last > _REPORT_SECONDS or count == total:
            last = time.monotonic()
            report(ImportReport(done=count, total=total))

    with (folder / _WEIGHTS).open("xb") as file:
        writer = WeightsFile(file, weights, dtype)
        for weight in weights:
            writer.write(weight, on_rows)
        file.flush()
        os.fsync(file.fileno())


def _write_texts(folder: Path, config: Config, parts: TokenizerParts, model: GgufModel, job: ImportJob) -> None:
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    parts.tokenizer.save_pretrained(folder)
    generation: dict[str, Any] = {"eos_token_id": parts.end_ids}
    for name, (own, key) in _SAMPLING.items():
        value = job.parameters.get(own)
        if value is None and key in model.metadata:
            value = model.metadata.number(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            generation[name] = value
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2))
    if job.license:
        (folder / "LICENSE").write_text(job.license)


def _notes(parts: TokenizerParts, stops: list[str], dtype: mx.Dtype) -> list[str]:
    notes = []
    if not parts.has_template:
        notes.append("it has no chat template, so it only continues texts")
    left = [stop for stop in stops if parts.tokenizer.convert_tokens_to_ids(stop) not in parts.end_ids]
    if left:
        notes.append(f"its stops {', '.join(map(repr, left))} are no tokens: name them as `stop` in requests")
    return notes


def _end_with_stdin() -> None:
    os.read(sys.stdin.fileno(), 1)  # reading sys.stdin would hold a lock that the interpreter needs to exit
    os._exit(1)


def run_job(job: ImportJob, report: Report) -> ImportReport:
    """Import a job's model, and return how that ended. `report` is called with the progress."""
    try:
        with catch_panics():
            return ImportReport(is_whole=True, notes=import_model(job, report))
    except UnusableFileError as error:
        reason = str(error)
    except OSError as error:
        reason = f"it can't be read or written ({error.strerror or error})"
    except MemoryError:
        reason = "memory ran out"
    except Exception as error:  # what libraries raise for values that make no sense
        reason = f"its metadata or weights are broken ({short_message(error)})"
    return ImportReport(failed=reason)


def main() -> None:
    """Import the model of the job on stdin."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=ImportJob)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    _print_progress(run_job(job, _print_progress))


def _print_progress(now: ImportReport) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(now) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
