"""Write the repository's samples of voices that are not in training: clips for tests, a recording for the examples.

python -m demo_whisper_model.samples --clips FOLDER      (needs the extra `audio`)
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from demo_whisper_model.clips import FILE, RATE, VARIANTS, Clips, packed
from demo_whisper_model.utterances import with_noise
from demo_whisper_model.words import WORDS

_ROOT = Path(__file__).parents[2]
CLIPS = _ROOT / "tests" / "demo" / "clips"
RECORDING = _ROOT / "examples" / "words.mp3"
SAID = "hello doctor please telephone four two nine zero tomorrow"

NAMES = "words.txt"  # beside the clips: the word of each number

_VOICES = ("m3", "f2", "adam", "steph3")
_WORDS_A_VOICE = 12
_SPEAKER = "f2"
_BEGIN, _GAP = 0.3, 0.15  # seconds before the first word, and after each


def some(clips: Clips) -> list[int]:
    """Return the numbers of the clips for tests: some words of some voices, none of them twice."""
    wanted = {
        (VARIANTS["held"].index(name), word)
        for at, name in enumerate(_VOICES)
        for word in range(at, len(_VOICES) * _WORDS_A_VOICE, len(_VOICES))
    }
    pairs = zip(clips.voices.tolist(), clips.words.tolist(), strict=True)
    return [number for number, pair in enumerate(pairs) if pair in wanted]


def write(clips: Clips, folder: Path) -> None:
    """Write the clips for tests in the layout of the whole file."""
    chosen = some(clips)
    sounds = [packed(clips.sound(number)) for number in chosen]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAMES).write_text("\n".join(WORDS) + "\n")
    np.savez_compressed(
        folder / FILE,
        held_words=clips.words[chosen],
        held_voices=clips.voices[chosen],
        held_ends=np.cumsum([len(sound) for sound in sounds]),
        held_data=np.concatenate(sounds),
    )


def recording(clips: Clips) -> NDArray[np.float32]:
    """Return `SAID`, spoken by one voice, with a little noise."""
    voice = clips.voices == VARIANTS["held"].index(_SPEAKER)
    pieces = [np.zeros(int(_BEGIN * RATE), np.float32)]
    for word in SAID.split():
        (number,) = np.flatnonzero(voice & (clips.words == WORDS.index(word)))
        pieces += [clips.sound(int(number)) * np.float32(0.5), np.zeros(int(_GAP * RATE), np.float32)]
    return with_noise(np.random.default_rng(1), np.concatenate(pieces), 30, 30)


def main() -> None:
    """Write the files."""
    import soundfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, required=True, help="the folder that the clips are in")
    held = Clips(parser.parse_args().clips, "held")
    write(held, CLIPS)
    soundfile.write(RECORDING, recording(held), RATE)
    print(f"{(CLIPS / FILE).stat().st_size:,} bytes of clips, {RECORDING.stat().st_size:,} bytes of a recording")


if __name__ == "__main__":
    main()
