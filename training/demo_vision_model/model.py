"""Qwen3-VL in plain PyTorch, for training: weights by their usual names, batches of images of one size.

Weights are float32, the forward pass is bfloat16 on a GPU. All but attention works on flat lists of tokens.
"""

# ruff: noqa: E501 - shapes in a line

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F

from demo_vision_model.config import CONFIG, TEXT, VISION

IMAGE = CONFIG["image_token_id"]
_HIDDEN, _HEADS, _KV, _DIM = 192, 4, 2, 64
_LAYERS, _FFN = TEXT["num_hidden_layers"], TEXT["intermediate_size"]
_WIDE, _VHEADS, _DEPTH, _PATCH = VISION["hidden_size"], VISION["num_heads"], VISION["depth"], VISION["patch_size"]
_SIDE = math.isqrt(VISION["num_position_embeddings"])

# A CPU computes faster in float32.
COMPUTE = torch.bfloat16 if torch.cuda.is_available() else torch.float32

Weights = dict[str, torch.Tensor]
_LM, _VM = "model.language_model.", "model.visual."


def shapes() -> dict[str, tuple[int, ...]]:
    """Return every weight's shape. The patches' projection is one frame's: a picture is the same frame twice."""
    out: dict[str, tuple[int, ...]] = {
        _VM + "patch_embed.proj.weight": (_WIDE, 3 * _PATCH * _PATCH), _VM + "patch_embed.proj.bias": (_WIDE,),
        _VM + "pos_embed.weight": (_SIDE * _SIDE, _WIDE),
    }  # fmt: skip

    def linear(name: str, rows: int, columns: int) -> None:
        out[name + ".weight"], out[name + ".bias"] = (rows, columns), (rows,)

    for i in range(_DEPTH):
        block = f"{_VM}blocks.{i}."
        for norm in ("norm1", "norm2"):
            out[f"{block}{norm}.weight"] = out[f"{block}{norm}.bias"] = (_WIDE,)
        linear(block + "attn.qkv", 3 * _WIDE, _WIDE)
        linear(block + "attn.proj", _WIDE, _WIDE)
        linear(block + "mlp.linear_fc1", VISION["intermediate_size"], _WIDE)
        linear(block + "mlp.linear_fc2", _WIDE, VISION["intermediate_size"])
    for merger, width in ((_VM + "merger.", _WIDE), (_VM + "deepstack_merger_list.0.", 4 * _WIDE)):
        out[merger + "norm.weight"] = out[merger + "norm.bias"] = (width,)
        linear(merger + "linear_fc1", 4 * _WIDE, 4 * _WIDE)
        linear(merger + "linear_fc2", _HIDDEN, 4 * _WIDE)
    out[_LM + "embed_tokens.weight"] = (TEXT["vocab_size"], _HIDDEN)
    for i in range(_LAYERS):
        layer = f"{_LM}layers.{i}."
        out[layer + "self_attn.q_proj.weight"] = (_HEADS * _DIM, _HIDDEN)
        out[layer + "self_attn.k_proj.weight"] = out[layer + "self_attn.v_proj.weight"] = (_KV * _DIM, _HIDDEN)
        out[layer + "self_attn.o_proj.weight"] = (_HIDDEN, _HEADS * _DIM)
        out[layer + "self_attn.q_norm.weight"] = out[layer + "self_attn.k_norm.weight"] = (_DIM,)
        out[layer + "mlp.gate_proj.weight"] = out[layer + "mlp.up_proj.weight"] = (_FFN, _HIDDEN)
        out[layer + "mlp.down_proj.weight"] = (_HIDDEN, _FFN)
        out[layer + "input_layernorm.weight"] = out[layer + "post_attention_layernorm.weight"] = (_HIDDEN,)
    out[_LM + "norm.weight"] = (_HIDDEN,)
    return out


def initial(device: str) -> Weights:
    """Draw the weights."""
    weights: Weights = {}
    for name, shape in shapes().items():
        if len(shape) == 1:
            value = torch.zeros(shape) if name.endswith("bias") else torch.ones(shape)
        else:
            scale = 0.06 if "patch_embed" in name or "pos_embed" in name else 0.03
            if name.startswith(_LM) and ("o_proj" in name or "down_proj" in name):
                scale /= math.sqrt(2 * _LAYERS)
            if "attn.proj" in name or ("blocks" in name and "linear_fc2" in name):
                scale /= math.sqrt(2 * _DEPTH)
            value = torch.randn(shape) * scale
        weights[name] = value.to(device).requires_grad_()
    return weights


def _half(x: torch.Tensor) -> torch.Tensor:
    return x.to(COMPUTE)


def _linear(w: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    bias = w.get(name + ".bias")
    return F.linear(x, _half(w[name + ".weight"]), None if bias is None else _half(bias))


def _layer_norm(w: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    return _half(F.layer_norm(x.float(), (x.shape[-1],), w[name + ".weight"], w[name + ".bias"], 1e-6))


def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return _half(F.rms_norm(x.float(), (x.shape[-1],), weight, TEXT["rms_norm_eps"]))


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate (tokens, heads, dim) by position, halves paired."""
    a, b = x.float().chunk(2, dim=-1)
    return _half(torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1))


def _see_before(w: Weights, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, ...]:
    qkv = _linear(w, "attn.qkv", _layer_norm(w, "norm1", x)).view(-1, 3, _VHEADS, _WIDE // _VHEADS)
    q, k, v = qkv.unbind(1)
    return _turn(q, cos, sin), _turn(k, cos, sin), v


def _see_after(w: Weights, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
    x = x + _linear(w, "attn.proj", mixed)
    inner = F.gelu(_linear(w, "mlp.linear_fc1", _layer_norm(w, "norm2", x)), approximate="tanh")
    return x + _linear(w, "mlp.linear_fc2", inner)


def _read_before(w: Weights, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, ...]:
    h = _rms(x, w["input_layernorm.weight"])
    q = _linear(w, "self_attn.q_proj", h).view(-1, _HEADS, _DIM)
    k = _linear(w, "self_attn.k_proj", h).view(-1, _KV, _DIM)
    v = _linear(w, "self_attn.v_proj", h).view(-1, _KV, _DIM)
    q = _turn(_rms(q, w["self_attn.q_norm.weight"]), cos, sin)
    k = _turn(_rms(k, w["self_attn.k_norm.weight"]), cos, sin)
    return q, k.repeat_interleave(_HEADS // _KV, 1), v.repeat_interleave(_HEADS // _KV, 1)


def _read_after(w: Weights, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
    x = x + _linear(w, "self_attn.o_proj", mixed)
    h = _rms(x, w["post_attention_layernorm.weight"])
    return x + _linear(w, "mlp.down_proj", F.silu(_linear(w, "mlp.gate_proj", h)) * _linear(w, "mlp.up_proj", h))


def _merge(w: Weights, x: torch.Tensor) -> torch.Tensor:
    if w["norm.weight"].shape[0] == _WIDE:
        x = _layer_norm(w, "norm", x).view(-1, 4 * _WIDE)
    else:
        x = _layer_norm(w, "norm", x.view(-1, 4 * _WIDE))
    return _linear(w, "linear_fc2", F.gelu(_linear(w, "linear_fc1", x)))


def _attend(qkv: tuple[torch.Tensor, ...], rows: int, causal: bool) -> torch.Tensor:
    heads, dim = qkv[0].shape[-2:]
    q, k, v = (part.view(rows, -1, heads, dim).transpose(1, 2) for part in qkv)
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).reshape(-1, heads * dim)


def _blocks(x: torch.Tensor) -> torch.Tensor:
    """Reorder (..., height, width, features) so that the four patches of a token stand together, flat."""
    *lead, high, wide, size = x.shape
    x = x.view(*lead, high // 2, 2, wide // 2, 2, size).movedim(-4, -3)
    return x.reshape(*lead, high * wide, size)


@cache
def _sight(high: int, wide: int, device: str) -> tuple[torch.Tensor, ...]:
    """Return for a picture's patches, in order: cos and sin to turn by, and where to look up their place."""
    rows, columns = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
    places = _blocks(torch.stack((rows, columns), -1)).float()
    quarter = _WIDE // _VHEADS // 4
    speeds = 10000.0 ** (-torch.arange(0, quarter, dtype=torch.float32) / quarter)
    angles = (places[:, :, None] * speeds).flatten(1)[:, None]
    grid = places * torch.tensor([(_SIDE - 1) / (high - 1), (_SIDE - 1) / (wide - 1)])
    low = grid.floor().clamp(max=_SIDE - 1)
    part, low = grid - low, low.long()
    up = (low + 1).clamp(max=_SIDE - 1)
    index = torch.stack([a[:, 0] * _SIDE + b[:, 1] for a in (low, up) for b in (low, up)])
    share = torch.stack([a[:, 0] * b[:, 1] for a in (1 - part, part) for b in (1 - part, part)])
    return tuple(x.to(device) for x in (angles.cos(), angles.sin(), index, share[..., None]))


@cache
def _steps(grids: tuple[tuple[int, int], ...], device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what to add to the number of text tokens before: (3, pads) for the n-th pad, (pads + 1) for text after n pads."""
    pads, texts, start = [torch.zeros(3, 0, dtype=torch.long)], [torch.zeros(0, dtype=torch.long)], 0
    for high, wide in grids:
        rows, columns = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
        pads.append(torch.stack((torch.zeros_like(rows), rows, columns)).flatten(1) + start)
        texts.append(torch.full((high * wide,), start))
        start += max(high, wide)
    return torch.cat(pads, 1).to(device), torch.cat((*texts, torch.tensor([start]))).to(device)


def positions(tokens: torch.Tensor, grids: tuple[tuple[int, int], ...]) -> torch.Tensor:
    """Return the (3, rows, length) positions of tokens, whose pictures are (height, width) tokens large."""
    pad = tokens == IMAGE
    before = (~pad).cumsum(1) - (~pad).long()
    count = pad.cumsum(1)
    pads, texts = _steps(grids, str(tokens.device))
    if not grids:
        return before.expand(3, -1, -1)
    return before + torch.where(pad, pads[:, (count - 1).clamp(min=0)], texts[count])


class Model:
    """The weights, and the forward pass with its compiled parts."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.weights = initial(device)
        self.compiled = device == "cuda"
        self._choose(torch.compile if self.compiled else lambda f: f)
        speeds = TEXT["rope_theta"] ** (-torch.arange(0, _DIM, 2, dtype=torch.float32, device=device) / _DIM)
        self.speeds = speeds
        which = torch.zeros(_DIM // 2, dtype=torch.long)
        for axis, length in ((1, 10), (2, 10)):
            which[axis : 3 * length : 3] = axis
        self.axis = which.to(device)
        self.parts: dict[str, Weights] = {}

    def _choose(self, compiled: Callable[[Any], Any]) -> None:
        self.see_before, self.see_after, self.merge = compiled(_see_before), compiled(_see_after), compiled(_merge)
        self.read_before, self.read_after = compiled(_read_before), compiled(_read_after)

    def run_plain(self) -> None:
        """Run without compiled parts from now on."""
        self.compiled = False
        self._choose(lambda f: f)

    def part(self, prefix: str) -> Weights:
        """Return the weights whose names start so, without it."""
        if prefix not in self.parts:
            self.parts[prefix] = {
                name.removeprefix(prefix): w for name, w in self.weights.items() if name.startswith(prefix)
            }
        return self.parts[prefix]

    def see(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode (rows, height, width, 3) pictures of levels 0 to 255: features and deepstack features, (tokens, size)."""
        rows, high, wide, _ = pictures.shape
        high, wide = high // _PATCH, wide // _PATCH
        x = pictures.float() / 127.5 - 1
        x = x.view(rows, high, _PATCH, wide, _PATCH, 3).permute(0, 1, 3, 5, 2, 4).flatten(3)
        w = self.weights
        x = _linear(w, _VM + "patch_embed.proj", _half(_blocks(x).flatten(0, 1)))
        cos, sin, index, share = _sight(high, wide, self.device)
        place = (F.embedding(index, w[_VM + "pos_embed.weight"]) * share).sum(0)
        x = x + _half(place.repeat(rows, 1))
        cos, sin = cos.repeat(rows, 1, 1), sin.repeat(rows, 1, 1)
        for i in range(_DEPTH):
            block = self.part(f"{_VM}blocks.{i}.")
            x = self.see_after(block, x, _attend(self.see_before(block, x, cos, sin), rows, False))
            if i in VISION["deepstack_visual_indexes"]:
                deep = self.merge(self.part(_VM + "deepstack_merger_list.0."), x)
        return self.merge(self.part(_VM + "merger."), x), deep

    def hidden(self, tokens: torch.Tensor, pictures: list[torch.Tensor]) -> torch.Tensor:
        """Return the last hidden states, (rows * length, size), normalised, of (rows, length) tokens."""
        rows, length = tokens.shape
        step = _PATCH * 2
        grids = tuple((picture.shape[1] // step, picture.shape[2] // step) for picture in pictures)
        place = positions(tokens, grids)
        angles = place[self.axis].permute(1, 2, 0).reshape(rows * length, -1).float() * self.speeds
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        x = _half(F.embedding(tokens.view(-1), self.weights[_LM + "embed_tokens.weight"]))
        deep = None
        if pictures:
            pad = tokens == IMAGE
            seen = [[part.view(rows, -1, _HIDDEN) for part in self.see(picture)] for picture in pictures]
            index = (pad.cumsum(1) - 1).clamp(min=0)[..., None].expand(-1, -1, _HIDDEN)
            shown, deep = (torch.cat(parts, 1).gather(1, index).view(-1, _HIDDEN) for parts in zip(*seen, strict=True))
            mask = pad.view(-1, 1)
            x = torch.where(mask, shown, x)
            deep = torch.where(mask, deep, torch.zeros_like(deep))
        for i in range(_LAYERS):
            layer = self.part(f"{_LM}layers.{i}.")
            x = self.read_after(layer, x, _attend(self.read_before(layer, x, cos, sin), rows, True))
            if i == 0 and deep is not None:
                x = x + deep
        return _rms(x, self.weights[_LM + "norm.weight"])

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits of hidden states, float32."""
        return F.linear(hidden, _half(self.weights[_LM + "embed_tokens.weight"])).float()
