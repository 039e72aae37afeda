"""Train the demo Whisper model with PyTorch, on one GPU; MLX runs the result.

Training ends after a number of minutes; the learning rate falls over that time. The weights with the most right tokens
for voices kept out of training are written as ``weights.safetensors``, float32.

    python -m demo_whisper_model.train --clips FOLDER --out FOLDER [--minutes 8]      (needs: pip install torch)
"""

import argparse
import math
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from demo_whisper_model.batches import Batch, batches, make
from demo_whisper_model.clips import FILE, MELS, Clips
from demo_whisper_model.config import ALIGNMENT_HEADS, CONFIG
from demo_whisper_model.model import Whisper, log_mel
from demo_whisper_model.tokenizer import END
from repeated import repeated

WEIGHTS = "weights.safetensors"
_ALIGNING = 0.2  # of the loss
_BETWEEN = 200  # batches, of 60 MB each, until one is used again, with other noise
_SIZES = (math.log(0.85), math.log(1.5))  # by which frequencies rise; a child's are half as high again
_HEADS = [head for _, head in ALIGNMENT_HEADS]


def coded(mel: Tensor) -> Tensor:
    """Return features [batch, frames, mels] as through another microphone and, in half of the rows, a lossy format.

    Such formats leave out high bands and those far below the loudest of their time, and add noise.
    """
    rows, _, count = mel.shape

    def drawn(low: float, high: float) -> Tensor:
        return torch.empty(rows, 1, 1, device=mel.device).uniform_(low, high)

    tilt = torch.randn(rows, 1, 3, device=mel.device) * 0.1
    bands = torch.linspace(-1, 1, count, device=mel.device)
    mel = mel + tilt[..., :1] + tilt[..., 1:2] * bands + tilt[..., 2:] * bands**2
    floor = mel.amin((1, 2), keepdim=True)
    noisy = mel + torch.randn_like(mel) * drawn(0.0, 0.08)
    high = torch.linspace(0, 1, count, device=mel.device) > drawn(0.73, 1.05)  # from 3.5 kHz on, or nothing
    faint = noisy < noisy.amax(2, keepdim=True) - drawn(0.5, 1.2)
    lossy = torch.where(high | faint, floor, noisy)
    return torch.where(drawn(0.0, 1.0) < 0.5, lossy, mel)


def resized(mel: Tensor, centres: Tensor) -> Tensor:
    """Return features [batch, frames, mels], in half of the rows as of a smaller or a larger person.

    Such a voice has the same sounds at higher or lower frequencies. `centres` [mels] are the frequencies of the bands.
    """
    rows, frames, count = mel.shape
    sizes = torch.empty(rows, 1, device=mel.device).uniform_(*_SIZES).exp()
    sizes = torch.where(torch.rand_like(sizes) < 0.5, sizes, torch.ones_like(sizes))
    wanted = centres / sizes  # [batch, mels]
    upper = torch.searchsorted(centres, wanted).clamp(1, count - 1)
    lower = upper - 1
    share = ((wanted - centres[lower]) / (centres[upper] - centres[lower])).clamp(0, 1)
    below, above = (mel.gather(2, bands[:, None].expand(rows, frames, count)) for bands in (lower, upper))
    return torch.lerp(below, above, share[:, None])


class OnDevice(NamedTuple):
    """A batch on the device that trains; see `Batch`."""

    sound: Tensor
    tokens: Tensor
    learn: Tensor
    spans: Tensor
    frames: Tensor
    noise: Tensor


class Trainer:
    """The model, its optimizer, and a step."""

    def __init__(self, device: str, filters: NDArray[np.float32]) -> None:
        self.device = device
        self._copies = torch.cuda.Stream() if device == "cuda" else None
        self.model = Whisper(CONFIG).to(device)
        self._filters = torch.from_numpy(filters).to(device)
        self._centres = (self._filters * torch.arange(filters.shape[1], device=device)).sum(1) / self._filters.sum(1)
        matrices = [weight for weight in self.model.parameters() if weight.ndim > 1]
        others = [weight for weight in self.model.parameters() if weight.ndim <= 1]
        groups = [{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98), fused=device == "cuda")

    def moved(self, batch: Batch) -> OnDevice:
        """Copy a batch to the device."""
        return OnDevice(*(torch.from_numpy(array.copy()).to(self.device) for array in batch))

    def loaded(self, source: Iterator[Batch]) -> Iterator[OnDevice]:
        """Copy batches to the device, each beside the computation with the one before."""
        with ThreadPoolExecutor(1) as thread:
            coming = thread.submit(self._next, source)
            while True:
                batch = coming.result()
                coming = thread.submit(self._next, source)
                yield batch

    def _next(self, source: Iterator[Batch]) -> OnDevice:
        with torch.cuda.stream(self._copies):
            batch = self.moved(next(source))
        if self._copies:
            self._copies.synchronize()
            for array in batch:
                array.record_stream(torch.cuda.default_stream())
        return batch

    def _told(self, batch: OnDevice, *, varied: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return logits, the tokens that come next, which are learnt, and the logarithms of the attention."""
        sound = batch.sound.float() / 2**15
        mel = log_mel(sound + torch.randn_like(sound) * batch.noise[:, None], self._filters)
        if varied:
            mel = coded(resized(mel, self._centres))
        after = torch.arange(mel.shape[1], device=self.device) >= batch.frames[:, None]
        mel = mel.masked_fill(after[..., None], 0.0)
        tokens, learn = batch.tokens.long(), batch.learn[:, 1:]
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            logits, attention = self.model(mel, tokens[:, :-1])
        return logits.float(), tokens[:, 1:], learn, attention

    def step(self, batch: OnDevice, rate: float) -> Tensor:
        """Take one step and return the losses: of the tokens, and of the attention to each word's sound."""
        logits, tokens, learn, attention = self._told(batch, varied=True)
        written = F.cross_entropy(logits[learn], tokens[learn])
        spans = batch.spans[:, 1:].long()
        has = spans[..., 1] > 0
        places = torch.arange(attention.shape[-1], device=self.device)
        inside = (places >= spans[has][:, :1]) & (places < spans[has][:, 1:])
        heads = attention[:, _HEADS].transpose(1, 2)[has]  # [words, heads, places]
        # Evenly over the word: where attention may be anywhere in it, so is the border to the next word.
        aligned = -(heads.masked_fill(~inside[:, None], 0.0).sum(-1) / inside.sum(-1)[:, None]).mean()
        (written + _ALIGNING * aligned).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return torch.stack([written.detach(), aligned.detach()])

    def right(self, held: list[OnDevice]) -> tuple[float, float]:
        """Return the shares of words, and of all tokens, that the model would write, given the tokens before them."""
        hits, totals = [0, 0], [0, 0]
        for batch in held:
            with torch.no_grad():
                logits, tokens, learn, _ = self._told(batch, varied=False)
            good = logits.argmax(-1) == tokens
            for at, asked in enumerate((learn & (tokens < END), learn)):
                hits[at] += int(good[asked].sum())
                totals[at] += int(asked.sum())
        return hits[0] / max(1, totals[0]), hits[1] / max(1, totals[1])


def rate_at(step: int, done: float, peak: float) -> float:
    """Return the learning rate: 500 steps up, then a cosine down to a hundredth of the peak when all is done."""
    return peak * min(1.0, (step + 1) / 500) * (0.01 + 0.495 * (1 + math.cos(math.pi * min(1.0, done))))


def earlier(file: Path) -> dict[str, Tensor]:
    """Return the weights that training wrote, or those of a model's folder, in float32 and PyTorch's order of axes."""
    weights = {name: value.float() for name, value in load_file(file).items()}
    exported = weights["encoder.conv1.weight"].shape[1] != MELS
    return {name: value.transpose(1, 2) if exported and value.ndim == 3 else value for name, value in weights.items()}


def run(arguments: argparse.Namespace) -> None:
    """Train, printing the losses and the share of right tokens, and saving the best weights as they come."""
    begun = time.perf_counter()
    torch.manual_seed(arguments.seed)
    with np.load(arguments.clips / FILE, allow_pickle=False) as file:
        filters = file["mel_filters"]
    trainer = Trainer("cuda" if torch.cuda.is_available() else "cpu", filters)
    if arguments.start:
        trainer.model.load_state_dict(earlier(arguments.start))
    unheard = Clips(arguments.clips, "held")
    held = [
        trainer.moved(make(unheard, np.random.default_rng((arguments.seed, at)), arguments.held)) for at in range(4)
    ]
    arguments.out.mkdir(parents=True, exist_ok=True)
    best = -1.0
    losses: list[Tensor] = []
    made = batches(arguments.clips, arguments.seed, arguments.rows, arguments.workers)
    for step, batch in enumerate(repeated(trainer.loaded(made), 2, _BETWEEN)):
        done = (time.perf_counter() - begun) / (60 * arguments.minutes)
        losses.append(trainer.step(batch, rate_at(step, done, arguments.rate)))
        if done >= 1 or step % arguments.every == arguments.every - 1:
            written, aligned = torch.stack(losses).mean(0).tolist()
            words, share = trainer.right(held)
            seconds = time.perf_counter() - begun
            print(
                f"step {step + 1} loss {written:.4f} aligned {aligned:.3f}"
                f" right {share:.4f}, words {words:.4f}, {seconds:.0f} s",
                flush=True,
            )
            losses = []
            if share > best:
                best = share
                save_file(trainer.model.state_dict(), arguments.out / WEIGHTS)
        if done >= 1:
            break


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, required=True, help="the folder that the clips are in")
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=8.0, help="end after this time")
    parser.add_argument("--rows", type=int, default=64, help="windows of 30 seconds in a batch")
    parser.add_argument("--held", type=int, default=32, help="the same, in each of 4 batches to measure with")
    parser.add_argument("--rate", type=float, default=1e-3, help="peak learning rate")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--every", type=int, default=500, help="steps between prints and measurements")
    parser.add_argument("--start", type=Path, help="weights to go on from: training's, or those of a model's folder")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
