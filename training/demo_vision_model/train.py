"""Train the vision demo model with PyTorch, on one GPU; MLX runs the result.

Training ends after a number of steps or minutes, whichever comes first; the learning rate falls over that time. The
weights that are best on images with shades and sizes kept out of training are written as ``weights.safetensors``,
float32.

    python -m demo_vision_model.train [--minutes 8] [--steps 30000] [--out FOLDER]      (needs: pip install torch)
"""

import argparse
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from demo_vision_model.batches import LEARN, Batch, batches, make
from demo_vision_model.config import CONFIG
from demo_vision_model.model import Model
from demo_vision_model.tokenizer import FOLDER, WEIGHTS, train, write

Loaded = tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]


def load(batch: Batch, device: str) -> Loaded:
    """Move a batch to the device: token ids, which are learnt, and pictures."""
    raw = torch.from_numpy(batch.tokens.astype(np.int32)).to(device)
    return (raw & (LEARN - 1)).long(), raw >= LEARN, [torch.from_numpy(one).to(device) for one in batch.pictures]


def loaded(source: Iterator[Batch], device: str) -> Iterator[Loaded]:
    """Move batches to the device beside the computation that runs there."""
    if device == "cpu":
        yield from (load(batch, device) for batch in source)
        return
    stream = torch.cuda.Stream()
    for batch in source:
        with torch.cuda.stream(stream):
            tokens, learn, pictures = load(batch, device)
        now = torch.cuda.current_stream()
        now.wait_stream(stream)
        for one in (tokens, learn, *pictures):
            one.record_stream(now)
        yield tokens, learn, pictures


class Trainer:
    """The model, its optimizer, and a step."""

    def __init__(self, device: str) -> None:
        self.model = Model(device)
        groups: dict[tuple[bool, bool], list[torch.Tensor]] = defaultdict(list)
        for name, weight in self.model.weights.items():
            groups["visual" in name, weight.ndim == 2].append(weight)
        self.optimizer = torch.optim.AdamW(
            [
                {"params": weights, "weight_decay": 0.05 * matrix, "part": 0.5 if visual else 1.0}
                for (visual, matrix), weights in groups.items()
            ],
            lr=1e-3, betas=(0.9, 0.95), fused=device == "cuda",
        )  # fmt: skip

    def _backward(self, batch: Loaded) -> torch.Tensor:
        tokens, learn, pictures = batch
        target = torch.where(learn, tokens, -1).roll(-1, 1)
        target[:, -1] = -1
        loss = F.cross_entropy(self.model.logits(self.model.hidden(tokens, pictures)), target.view(-1), ignore_index=-1)
        loss.backward()
        return loss.detach()

    def step(self, batch: Loaded, rate: float) -> torch.Tensor:
        """Take one step and return the mean loss of the learnt tokens."""
        try:
            loss = self._backward(batch)
        except Exception as error:  # a compiler raises whatever it likes, and may need what the machine lacks
            if not self.model.compiled:
                raise
            print(f"going on without torch.compile: {type(error).__name__}: {error}", flush=True)
            self.model.run_plain()
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._backward(batch)
        torch.nn.utils.clip_grad_norm_(self.model.weights.values(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["part"]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def right(self, batch: Batch) -> NDArray[np.bool_]:
        """Whether the model would write each token that is learnt, given those before it; true where none is learnt."""
        tokens, learn, pictures = load(batch, self.model.device)
        # With gradients on, though none are taken: the compiled parts are then those of training.
        guess = self.model.logits(self.model.hidden(tokens, pictures)).detach().argmax(-1).view(tokens.shape)
        good = torch.ones_like(learn)
        good[:, 1:] = guess[:, :-1] == tokens[:, 1:]
        return np.asarray((good | ~learn).cpu())


def accuracy(trainer: Trainer, held: list[Batch]) -> dict[str, float]:
    """Return for each kind of question the share of answers that greedy decoding gets right to the last token."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for batch in held:
        good = trainer.right(batch)
        for row, tokens, kinds in zip(good, batch.tokens >= LEARN, batch.kinds, strict=True):
            starts = np.flatnonzero(tokens & ~np.concatenate(([False], tokens[:-1])))
            for kind, start, end in zip(kinds, starts, [*starts[1:], len(row)], strict=False):
                hits[kind].append(bool(row[start:end].all()))
    return {kind: sum(found) / len(found) for kind, found in sorted(hits.items())}


def save(trainer: Trainer, folder: Path) -> None:
    """Write the weights as they are."""
    weights = {name: w.detach().cpu().contiguous() for name, w in trainer.model.weights.items()}
    save_file(weights, folder / (WEIGHTS + ".part"))
    (folder / (WEIGHTS + ".part")).rename(folder / WEIGHTS)


def rate_at(step: int, done: float, peak: float) -> float:
    """Return the learning rate: 300 steps up, then a cosine down to a hundredth of the peak when all is done."""
    return peak * min(1.0, (step + 1) / 300) * (0.01 + 0.495 * (1 + math.cos(math.pi * min(1.0, done))))


def run(arguments: argparse.Namespace) -> None:
    """Train, printing the loss and the accuracy, and saving the best weights as they come."""
    begun = time.perf_counter()
    torch.manual_seed(arguments.seed)
    if not (arguments.out / "tokenizer.json").exists():
        write(train(arguments.seed, CONFIG["vocab_size"]), arguments.out)
    source = batches(arguments.out, arguments.seed, arguments.rows, arguments.workers)
    held = [make(arguments.out, f"valid:{arguments.seed}", i, arguments.held, "seen") for i in range(16)]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    trainer = Trainer(device)
    if arguments.start:
        for name, value in load_file(arguments.start).items():
            trainer.model.weights[name].data.copy_(value)
    best = -1.0
    losses: list[torch.Tensor] = []
    last = time.perf_counter()
    for step, batch in enumerate(loaded(source, device)):
        done = max(step / arguments.steps, (time.perf_counter() - begun) / (60 * arguments.minutes))
        losses.append(trainer.step(batch, rate_at(step, done, arguments.rate)))
        over = done >= 1
        if over or step % arguments.log == arguments.log - 1:
            mean, now = torch.stack(losses).mean().item(), time.perf_counter()
            pace = (now - last) / len(losses) * 1e3
            print(f"step {step + 1} loss {mean:.4f} {pace:.0f} ms a step, {now - begun:.0f} s", flush=True)
            losses, last = [], now
        if over or step % arguments.every == arguments.every - 1:
            found = accuracy(trainer, held)
            print("  " + " ".join(f"{kind} {share:.3f}" for kind, share in found.items()), flush=True)
            if sum(found.values()) + min(found.values()) > best:
                best = sum(found.values()) + min(found.values())
                save(trainer, arguments.out)
        if over:
            break


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=8.0, help="end after this time")
    parser.add_argument("--steps", type=int, default=30_000, help="end after this many steps")
    parser.add_argument("--rows", type=int, default=192, help="conversations in a batch, where each has one picture")
    parser.add_argument("--held", type=int, default=96, help="the same, in each of 16 batches to measure with")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--log", type=int, default=100, help="steps between prints")
    parser.add_argument("--every", type=int, default=1000, help="steps between measurements")
    parser.add_argument("--start", type=Path, help="weights to go on from")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder for the tokenizer and the weights")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
