"""The mel spectrogram that Whisper reads, computed block by block and kept in an unnamed file."""

import tempfile
from typing import Final

import mlx.core as mx
import numpy as np
from mlx_audio.stt.models.whisper.audio import HOP_LENGTH, N_FFT, N_FRAMES, SAMPLE_RATE
from mlx_audio.utils import hanning, mel_filters, stft
from numpy.typing import NDArray

FRAMES_PER_SECOND: Final[int] = SAMPLE_RATE // HOP_LENGTH
_MOST_MEMORY_BYTES = 16 * 2**20
_EDGE = N_FFT // 2
_LEAST_POWER = 1e-10
_DYNAMIC_RANGE = 8.0  # powers of ten below the loudest; quieter values are raised to that


class MelFile:
    """The log-mel spectrogram of a recording, 100 frames per second, and the loudness of each frame.

    It equals mlx-audio's `log_mel_spectrogram` of the whole recording. The loudest value affects all frames, so windows
    can only be read after the last block was added. `folder`: where the file goes once it is large.
    """

    def __init__(self, n_mels: int, folder: str) -> None:
        self._n_mels = n_mels
        self._file = tempfile.SpooledTemporaryFile(max_size=_MOST_MEMORY_BYTES, dir=folder)  # noqa: SIM115 - `close` does
        self._filters = mel_filters(SAMPLE_RATE, N_FFT, n_mels, norm="slaney", mel_scale=None).T
        self._window = hanning(N_FFT, periodic=True)
        self._held: NDArray[np.float32] | None = None  # samples for later frames
        self._samples = 0
        self._written = 0
        self._loudest = float(np.log10(_LEAST_POWER))
        self._levels: list[NDArray[np.float32]] = []

    @property
    def frames(self) -> int:
        """The number of whole frames in the recording."""
        return self._samples // int(HOP_LENGTH)

    @property
    def seconds(self) -> float:
        """The length of the recording in seconds."""
        return self._samples / float(SAMPLE_RATE)

    def add(self, samples: NDArray[np.float32]) -> None:
        """Add the next samples. The first of several blocks must have more than `N_FFT` / 2 of them."""
        self._samples += len(samples)
        if self._held is None:
            first = np.pad(samples, (0, max(0, _EDGE + 1 - len(samples))))
            samples = np.concatenate([first[1 : _EDGE + 1][::-1], samples])
            self._held = np.zeros(0, np.float32)
        self._held = np.concatenate([self._held, samples])
        self._compute_frames()

    def end(self) -> None:
        """Add the last frames of the recording."""
        missing = -(-(self._samples + _EDGE) // HOP_LENGTH) - self._written  # some frames reach beyond the last sample
        assert self._held is not None
        needed = (missing - 1) * HOP_LENGTH + N_FFT
        self._held = np.pad(self._held, (0, max(0, needed - len(self._held))))[:needed]
        self._compute_frames()

    def levels(self) -> NDArray[np.float32]:
        """Return the loudness of each frame: the mean of its log-mel values."""
        return np.concatenate(self._levels)[: self.frames]

    def window(self, start: int, size: int) -> mx.array:
        """Return `size` frames from `start` on, padded with zeros to 30 s: (3000, mels), float32."""
        return mx.pad(mx.array(self._read_frames(start, size)), [(0, N_FRAMES - size), (0, 0)])

    def beginning(self) -> mx.array:
        """Return the first 30 s, padded with silence: (3000, mels), float32."""
        size = min(N_FRAMES, self._written)
        silence = (max(float(np.log10(_LEAST_POWER)), self._loudest - _DYNAMIC_RANGE) + 4.0) / 4.0
        padding = [(0, N_FRAMES - size), (0, 0)]
        return mx.pad(mx.array(self._read_frames(0, size)), padding, constant_values=silence)

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def _compute_frames(self) -> None:
        """Write the complete frames of the held samples."""
        assert self._held is not None
        count = (len(self._held) - N_FFT) // HOP_LENGTH + 1
        if count <= 0:
            return
        used = mx.array(self._held[: (count - 1) * HOP_LENGTH + N_FFT])
        power = stft(used, window=self._window, n_fft=N_FFT, hop_length=HOP_LENGTH, center=False).abs().square()
        made = np.array(mx.maximum(power @ self._filters, _LEAST_POWER).log10())
        self._held = self._held[count * HOP_LENGTH :]
        self._written += count
        self._loudest = max(self._loudest, float(made.max()))
        self._levels.append(made.mean(axis=1))
        self._file.seek(0, 2)
        self._file.write(made.tobytes())

    def _read_frames(self, start: int, size: int) -> NDArray[np.float32]:
        row = 4 * self._n_mels
        self._file.seek(start * row)
        found = np.frombuffer(self._file.read(size * row), np.float32).reshape(size, self._n_mels)
        least = np.float32(self._loudest - _DYNAMIC_RANGE)
        return (np.maximum(found, least) + np.float32(4)) / np.float32(4)
