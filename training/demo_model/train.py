"""Train the demo model with PyTorch, whose attention is fast and lean on CUDA; MLX runs the result.

Weights are float32, the forward pass is bfloat16. All but attention works on a flat list of tokens of constant size, so
it compiles once; attention sees the batch as rows. Names of the weights are those of mlx-lm's qwen3.

    python -m demo_model.train [--seed 1] [--minutes 28] [--out FOLDER]        (needs: pip install torch)

Training ends after a number of minutes; the learning rate falls to match. `torchrun --nproc_per_node 2 -m ...` uses two
GPUs, for half the time. With --weights it goes on from a folder's weights, and saves the mean of those and its own,
which forgets less than its own alone (https://arxiv.org/abs/2109.01903); give another seed, or it sees the same
conversations again. With --draft it trains the smaller draft model of the tests (tests/demo/draft).
"""

# ruff: noqa: E501 - tables and progress lines

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from orchard.demo import MODEL_PATH
from safetensors.torch import load_file, save_file

from demo_model.batches import LEARN, batches
from repeated import repeated

CONFIG: dict[str, Any] = {
    "model_type": "qwen3",
    "architectures": ["Qwen3ForCausalLM"],
    "hidden_size": 256,
    "num_hidden_layers": 5,
    "intermediate_size": 640,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 3072,
    "tie_word_embeddings": True,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "rope_scaling": None,
    "max_position_embeddings": 32768,
    "attention_bias": False,
    "hidden_act": "silu",
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "torch_dtype": "bfloat16",
}
# Its heads are those of the model, so all functions below serve both.
DRAFT_CONFIG = CONFIG | {"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 384}
_HEADS, _KV, _DIM = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"], CONFIG["head_dim"]
_EPS = CONFIG["rms_norm_eps"]
_TIMES, _BETWEEN = 2, 1000  # uses of a batch, and new batches between two of them

Weights = dict[str, torch.Tensor]


def initial(device: str, config: dict[str, Any]) -> Weights:
    """Draw the weights, float32, under the names mlx-lm uses."""
    hidden, ffn, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for i in range(layers):
        layer = f"model.layers.{i}."
        shapes[layer + "self_attn.q_proj.weight"] = (_HEADS * _DIM, hidden)
        shapes[layer + "self_attn.k_proj.weight"] = (_KV * _DIM, hidden)
        shapes[layer + "self_attn.v_proj.weight"] = (_KV * _DIM, hidden)
        shapes[layer + "self_attn.o_proj.weight"] = (hidden, _HEADS * _DIM)
        shapes[layer + "self_attn.q_norm.weight"] = shapes[layer + "self_attn.k_norm.weight"] = (_DIM,)
        shapes[layer + "mlp.gate_proj.weight"] = shapes[layer + "mlp.up_proj.weight"] = (ffn, hidden)
        shapes[layer + "mlp.down_proj.weight"] = (hidden, ffn)
        shapes[layer + "input_layernorm.weight"] = shapes[layer + "post_attention_layernorm.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    weights: Weights = {}
    for name, shape in shapes.items():
        scale = 0.03 / math.sqrt(2 * layers) if "o_proj" in name or "down_proj" in name else 0.03
        value = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * scale
        weights[name] = value.to(device).requires_grad_()
    return weights


def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x.float(), (x.shape[-1],), weight, _EPS).to(torch.bfloat16)


def _linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.linear(x, weight.to(torch.bfloat16))


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate (tokens, heads, dim) by position, halves paired as in Qwen3."""
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(torch.bfloat16)


def _before(
    w: Weights, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    h = _norm(x, w["input_layernorm.weight"])
    q = _linear(h, w["self_attn.q_proj.weight"]).view(-1, _HEADS, _DIM)
    k = _linear(h, w["self_attn.k_proj.weight"]).view(-1, _KV, _DIM)
    v = _linear(h, w["self_attn.v_proj.weight"]).view(-1, _KV, _DIM)
    q = _turn(_norm(q, w["self_attn.q_norm.weight"]), cos, sin)
    k = _turn(_norm(k, w["self_attn.k_norm.weight"]), cos, sin)
    return q, k.repeat_interleave(_HEADS // _KV, 1), v.repeat_interleave(_HEADS // _KV, 1)


def _after(w: Weights, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
    x = x + _linear(mixed, w["self_attn.o_proj.weight"])
    h = _norm(x, w["post_attention_layernorm.weight"])
    gate = F.silu(_linear(h, w["mlp.gate_proj.weight"])) * _linear(h, w["mlp.up_proj.weight"])
    return x + _linear(gate, w["mlp.down_proj.weight"])


def _loss(norm: torch.Tensor, embed: torch.Tensor, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    logits = _linear(_norm(x, norm), embed).float()
    return F.cross_entropy(logits, target, ignore_index=-1)


def _orthogonal(update: torch.Tensor) -> torch.Tensor:
    x = update.to(torch.bfloat16)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    if wide := x.shape[-2] <= x.shape[-1]:
        x = x.mT
    for _ in range(5):
        square = x.mT @ x
        x = 3.4445 * x + x @ (-4.7750 * square + 2.0315 * square @ square)
    return x.mT if wide else x


class Muon:
    """Muon (https://kellerjordan.github.io/posts/muon/), matrices of one shape at once, sized as Adam's steps are.

    torch.optim.Muon takes them one by one, which takes as long as the rest of a step of so small a model.
    """

    def __init__(self, matrices: list[torch.Tensor], device: str) -> None:
        self.matrices = matrices
        shapes = sorted({tuple(w.shape) for w in matrices})
        self._alike = [[w for w in matrices if tuple(w.shape) == shape] for shape in shapes]
        self._momenta = [torch.zeros(len(of), *of[0].shape, device=device) for of in self._alike]
        self._orthogonal = torch.compile(_orthogonal) if device == "cuda" else _orthogonal

    def step(self, rate: float) -> None:
        """Move the matrices against their gradients."""
        for alike, momentum in zip(self._alike, self._momenta, strict=True):
            with torch.no_grad():
                grads = torch.stack([w.grad for w in alike if w.grad is not None])
                momentum.lerp_(grads, 0.05)
                update = self._orthogonal(grads.lerp(momentum, 0.95)).float()
                torch._foreach_mul_(alike, 1 - rate * 0.05)
                torch._foreach_add_(alike, list(update.unbind()), alpha=-rate * 0.2 * max(alike[0].shape) ** 0.5)


class Trainer:
    """The weights, the optimizer, and the compiled parts of a step."""

    def __init__(self, device: str, config: dict[str, Any] = CONFIG) -> None:
        self.device, self._config = device, config
        self.weights = initial(device, config)
        embeddings = self.weights["model.embed_tokens.weight"]
        matrices = [w for w in self.weights.values() if w.ndim == 2 and w is not embeddings]
        vectors = [w for w in self.weights.values() if w.ndim == 1]
        groups = [{"params": [embeddings], "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=device == "cuda")
        self.muon = Muon(matrices, device)
        self.layers = [
            {
                name.removeprefix(f"model.layers.{i}."): w
                for name, w in self.weights.items()
                if name.startswith(f"model.layers.{i}.")
            }
            for i in range(config["num_hidden_layers"])
        ]
        compiled = torch.compile if device == "cuda" else lambda f: f
        self.before, self.after, self.loss_of = compiled(_before), compiled(_after), compiled(_loss)
        positions = torch.arange(4096, dtype=torch.float32, device=device)[:, None]
        speeds = CONFIG["rope_theta"] ** (-torch.arange(0, _DIM, 2, dtype=torch.float32, device=device) / _DIM)
        self.cos, self.sin = (positions * speeds).cos(), (positions * speeds).sin()

    def loss(self, tokens: torch.Tensor, learn: torch.Tensor) -> torch.Tensor:
        """Return the mean loss over the learnt tokens of (rows, length) token ids."""
        rows, length = tokens.shape
        cos = self.cos[:length].repeat(rows, 1)[:, None]
        sin = self.sin[:length].repeat(rows, 1)[:, None]
        x = F.embedding(tokens.view(-1), self.weights["model.embed_tokens.weight"]).to(torch.bfloat16)
        for layer in self.layers:
            q, k, v = (
                part.view(rows, length, _HEADS, _DIM).transpose(1, 2) for part in self.before(layer, x, cos, sin)
            )
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = self.after(layer, x, mixed.transpose(1, 2).reshape(rows * length, _HEADS * _DIM))
        target = torch.where(learn, tokens, -1).roll(-1, 1)
        target[:, -1] = -1
        return self.loss_of(
            self.weights["model.norm.weight"], self.weights["model.embed_tokens.weight"], x, target.view(-1)
        )

    def step(self, raw: torch.Tensor, rate: float) -> torch.Tensor:
        """Take one step and return its loss."""
        raw = raw.to(self.device, non_blocking=True).long()
        loss = self.loss(raw & (LEARN - 1), raw >= LEARN)
        loss.backward()
        grads = [weight.grad for weight in self.weights.values() if weight.grad is not None]
        if dist.is_initialized():
            flat = torch.cat([grad.flatten() for grad in grads])
            dist.all_reduce(flat, dist.ReduceOp.AVG)
            parts = flat.split([grad.numel() for grad in grads])
            torch._foreach_copy_(grads, [part.view_as(grad) for part, grad in zip(parts, grads, strict=True)])
        torch.nn.utils.clip_grad_norm_(self.weights.values(), 1.0)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()
        self.muon.step(2 * rate)
        self.adam.zero_grad(set_to_none=True)
        for weight in self.muon.matrices:
            weight.grad = None
        return loss.detach()

    def take(self, weights: Weights, share: float) -> None:
        """Move the weights towards those of an earlier training; a share of 1 replaces them."""
        with torch.no_grad():
            for name, weight in weights.items():
                self.weights[name].lerp_(weight.to(self.weights[name]), share)

    def save(self, folder: Path) -> None:
        """Write bfloat16 weights and the configuration as a folder that mlx-lm loads."""
        weights = {name: w.detach().to(torch.bfloat16).cpu().contiguous() for name, w in self.weights.items()}
        save_file(weights, folder / "model.safetensors.part", metadata={"format": "mlx"})
        (folder / "model.safetensors.part").rename(folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self._config, indent=1) + "\n")


def rate_at(step: int, done: float, peak: float) -> float:
    """Return the learning rate: 200 steps up, then a cosine down to a hundredth of the peak when all is done."""
    return peak * min(1.0, (step + 1) / 200) * (0.01 + 0.495 * (1 + math.cos(math.pi * min(1.0, done))))


def _join_others() -> tuple[str, int]:
    """Return this process's device and its number; torchrun starts one for each GPU."""
    number = int(os.environ.get("LOCAL_RANK", "0"))
    if not torch.cuda.is_available():
        return "cpu", number
    torch.cuda.set_device(number)
    if "LOCAL_RANK" in os.environ:
        dist.init_process_group("nccl")
    return "cuda", number


def _share(done: float, device: str) -> float:
    """Return how much of the training is done for the first of all processes."""
    shared = torch.tensor(done, device=device)
    if dist.is_initialized():
        dist.broadcast(shared, 0)
    return float(shared.item())


def run(arguments: argparse.Namespace) -> None:
    """Train for the given number of minutes, printing the loss and saving as it goes."""
    torch.manual_seed(arguments.seed)
    device, number = _join_others()
    trainer = Trainer(device, DRAFT_CONFIG if arguments.draft else CONFIG)
    earlier = load_file(arguments.weights / "model.safetensors") if arguments.weights else {}
    trainer.take(earlier, 1.0)
    begun = last = time.perf_counter()
    done = 0.0
    seen = recent = 0
    losses: list[torch.Tensor] = []
    made = batches(arguments.out, arguments.seed + 1000 * number, arguments.workers)
    for step, batch in enumerate(repeated(made, _TIMES, _BETWEEN)):
        if step % 20 == 0:
            done = _share((time.perf_counter() - begun) / (60 * arguments.minutes), device)
        if done >= 1:
            break
        losses.append(trainer.step(torch.from_numpy(batch.astype("int32")), rate_at(step, done, arguments.rate)))
        seen += batch.size
        recent += batch.size
        if step % 100 == 99 and number == 0:
            mean = torch.stack(losses).mean().item()
            now = time.perf_counter()
            print(
                f"step {step + 1} loss {mean:.4f} {seen / 1e6:.0f}M tokens {recent / (now - last) / 1e6:.2f}M/s {now - begun:.0f}s",
                flush=True,
            )
            losses, recent, last = [], 0, now
        if step % arguments.every == arguments.every - 1 and number == 0:
            trainer.save(arguments.out)
    if dist.is_initialized():
        dist.destroy_process_group()
    trainer.take(earlier, 0.5)
    if number == 0:
        trainer.save(arguments.out)
        print(f"done: {seen / 1e6:.0f}M tokens in {(time.perf_counter() - begun) / 60:.1f} minutes", flush=True)


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=28.0, help="end after this time")
    parser.add_argument("--draft", action="store_true", help="train the smaller draft model of the tests")
    parser.add_argument("--weights", type=Path, help="folder with weights to go on from")
    parser.add_argument("--rate", type=float, default=3e-3, help="peak learning rate")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--every", type=int, default=500, help="steps between saves")
    parser.add_argument("--out", type=Path, default=MODEL_PATH, help="folder that holds the tokenizer")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
