"""The process that checks one short recording, by the name of this module: `python -m … SOURCE TARGET LEAST MOST`.

It writes the recording to TARGET as speech models read it, and says on stdout in JSON what is wrong with it.
"""

import json
import os
import resource
import sys
import wave

from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE

_CPU_SECONDS = 50


def convert_recording(source: str, target: str, least: float, most: float) -> str | None:
    """Write a recording of `least` to `most` seconds as a WAV file; return what is wrong with it, if anything is."""
    try:
        import numpy as np

        from orchard.backends.audio.decode import SilentError, decode_recording
    except ImportError:
        return "the server reads no recordings: pip install 'mlx-orchard[audio]'"
    blocks = []
    try:
        for block in decode_recording(source, "recording", RATE):
            blocks.append(block)
            if sum(map(len, blocks)) > most * RATE:
                break
    except SilentError:
        return "it is silent"
    except OrchardError as error:
        return error.message
    samples = np.concatenate(blocks)
    if not least * RATE <= len(samples) <= most * RATE:
        return f"it must last {least:g} to {most:g} seconds"
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file, wave.open(file, "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
        out.writeframes(np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return None


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    print(json.dumps({"error": convert_recording(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))}))
