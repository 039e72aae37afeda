"""What a server adds to the time of a transcription, and how the transcription affects a chat stream beside it.

The same recording is transcribed by the server and, in a separate process, by the code that the server runs, in turn.
`overhead` is the server's median time divided by that of the direct call, minus one; the target is 0.05 at most. Then
one stream of a chat model runs while each of the two transcribes. `gap` is the stream's longest gap beside the server's
transcription, divided by that beside the other process, which does the same computation; the target is 1.2 at most.
Prints one JSON line. Without --model, the model is a Whisper model of three million parameters with random weights,
which generates as many tokens as a window may have.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
from tests.support.serving import serve
from tests.support.sounds import noise, wav
from tests.support.whisper_models import make_whisper

from benchmarks.traffic import Traffic, gaps
from orchard.gateway.models.registry import resolve_model

_TEMPERATURE = 0.01  # so that no window is decoded again
_DIRECT = """
import sys, time
from pathlib import Path
from orchard.backends.audio import whisper
from orchard.core.tasks.transcribe import Transcribe
model = whisper.load(Path(sys.argv[1]), lambda fraction: None)
for line in sys.stdin:
    begin = time.perf_counter()
    for step in model.transcribe(Transcribe(line.rstrip("\\n"), temperature=float(sys.argv[2])), lambda: None):
        pass
    print(time.perf_counter() - begin, flush=True)
"""

Window = tuple[float, float]


@contextmanager
def called_directly(model: str, sound: Path) -> Iterator[Callable[[], float]]:
    """Yield what transcribes a recording in a process of its own, and returns the seconds it took."""
    command = [sys.executable, "-c", _DIRECT, model, str(_TEMPERATURE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        ask, answers = process.stdin, process.stdout

        def transcribe() -> float:
            ask.write(f"{sound}\n")
            ask.flush()
            return float(answers.readline())

        yield transcribe
        ask.close()


def timed(work: Callable[[], object]) -> Window:
    """Do a piece of work; return when it began and ended."""
    begin = time.perf_counter()
    work()
    return begin, time.perf_counter()


async def measure(model: str, sound: Path, chat: str, runs: int) -> dict[str, object]:
    """Give the figures of all runs."""
    ears, talker = (
        msgspec.structs.replace(resolve_model(path), id=name) for path, name in ((model, "ears"), (chat, "chat"))
    )
    with (
        called_directly(model, sound) as direct,
        serve((ears, talker), max_loaded_models=2, log_level="warning") as server,
        httpx.Client(base_url=server.url, timeout=3600) as http,
    ):

        def served() -> None:
            form = {"model": "ears", "temperature": str(_TEMPERATURE)}
            http.post("/v1/audio/transcriptions", data=form, files={"file": sound.read_bytes()}).raise_for_status()

        direct()
        served()
        by_call, by_server = [], []
        for _ in range(runs):
            by_call.append(direct())
            begin, end = timed(served)
            by_server.append(end - begin)
        await asyncio.to_thread(server.until, "chat", 300, state="ready")
        traffic = Traffic(server.url, "chat", 1)
        await traffic.begun()
        beside: list[tuple[Window, Window]] = []
        for _ in range(runs):
            beside.append((await asyncio.to_thread(timed, direct), await asyncio.to_thread(timed, served)))
        answers = await traffic.stop()
    unrelated = statistics.median(max(gaps(answers, *window)) for window, _ in beside)
    ours = statistics.median(max(gaps(answers, *window)) for _, window in beside)
    return {
        "runs": runs,
        "load_average": round(os.getloadavg()[0], 2),
        "direct_s": round(statistics.median(by_call), 3),
        "server_s": round(statistics.median(by_server), 3),
        "overhead": round(statistics.median(by_server) / statistics.median(by_call) - 1, 3),
        "gap_beside_unrelated_ms": round(unrelated * 1e3, 1),
        "gap_beside_server_ms": round(ours * 1e3, 1),
        "gap": round(ours / unrelated, 2),
    }


def _tiny(folder: Path) -> Path:
    sizes = {"n_audio_state": 176, "n_audio_head": 4, "n_audio_layer": 4, "n_text_state": 176, "n_text_head": 4}
    return make_whisper(folder, sizes={**sizes, "n_text_ctx": 448})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a Whisper model: a folder or a cached model")
    parser.add_argument("--chat", default="demo", help="the model of the stream")
    parser.add_argument("--seconds", type=float, default=60, help="how long the recording is")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder, "sound.wav")
        sound.write_bytes(wav(noise(args.seconds)))
        model = args.model and resolve_model(args.model).path
        model = model or str(_tiny(Path(folder, "model")))
        print(json.dumps({"benchmark": "transcription", **asyncio.run(measure(model, sound, args.chat, args.runs))}))


if __name__ == "__main__":
    main()
