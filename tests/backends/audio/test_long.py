"""What a long recording takes: 5 minutes in `make test`, 3 hours in `make test-deep`."""

import subprocess
import sys
from pathlib import Path

from tests.support.examples import is_deep
from tests.support.whisper_models import make_whisper

# In a process of its own, whose memory nothing else takes.
SCRIPT = """
import resource, sys, wave
from pathlib import Path
import psutil
from orchard.backends.audio import whisper
from orchard.core.tasks.transcribe import Segment, Transcribe
from tests.support.sounds import noise

folder, longest, decoded = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
decode, results = whisper._Windows._decode, []

def first_windows(windows, window):  # the others say what the last of them says
    if len(results) < decoded:
        results.append(decode(windows, window))
    return results[-1]

whisper._Windows._decode = first_windows
minute = noise(60).tobytes()
model = whisper.load_whisper(folder / "m", lambda fraction: None)
most = []
for seconds in (60, 60, longest):
    with wave.open(str(folder / "sound"), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        for _ in range(seconds // 60):
            file.writeframes(minute)
    peak = windows = 0
    for step in model.transcribe(Transcribe(str(folder / "sound"), temperature=0.01), lambda: None):
        peak = max(peak, psutil.Process().memory_info().rss)
        windows += step.done_seconds > 0
    assert windows >= seconds // 30 and step.done_seconds == seconds, (windows, step.done_seconds)
    most.append(peak)
print((most[2] - most[1]) // 2**20)
"""


def test_memory_hardly_grows_with_the_length_of_a_recording(tmp_path: Path) -> None:
    deep = is_deep()
    longest, decoded, most = (10_800, 10_000, 100) if deep else (300, 1, 24)  # MB; the samples alone are 690 and 15
    make_whisper(tmp_path / "m")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(longest), str(decoded)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= most, f"it grew by {done.stdout} MB"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "sound"]
