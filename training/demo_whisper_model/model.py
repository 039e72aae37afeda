"""Whisper in PyTorch, with the names of mlx-examples' weights (https://arxiv.org/abs/2212.04356)."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_FFT, _HOP = 400, 160


def log_mel(sound: Tensor, filters: Tensor) -> Tensor:
    """Return Whisper's features of sounds [batch, samples]: [batch, frames, mels]."""
    window = torch.hann_window(_FFT, device=sound.device)
    found = torch.stft(sound, _FFT, _HOP, window=window, return_complex=True)[..., :-1]
    mel = (filters @ found.abs().square()).clamp(min=1e-10).log10()
    mel = torch.maximum(mel, mel.amax((1, 2), keepdim=True) - 8.0)
    return ((mel + 4.0) / 4.0).transpose(1, 2)


def _sinusoids(length: int, width: int) -> Tensor:
    steps = torch.exp(-math.log(10_000) / (width // 2 - 1) * torch.arange(width // 2))
    angles = torch.arange(length)[:, None] * steps[None]
    return torch.cat([angles.sin(), angles.cos()], 1)


class Attention(nn.Module):  # type: ignore[misc]
    """Attention over the sequence itself, or over another one."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, other: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """Return what each place attends to."""
        other = x if other is None else other
        q, k, v = (self._split(part) for part in (self.query(x), self.key(other), self.value(other)))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2))

    def weights(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the logarithms of the attention's weights: [batch, heads, places of x, places of other]."""
        q, k = self._split(self.query(x)), self._split(self.key(other))
        return (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).float().log_softmax(-1)


class Block(nn.Module):  # type: ignore[misc]
    """A layer of the encoder or, with `cross`, of the decoder."""

    def __init__(self, width: int, heads: int, *, cross: bool) -> None:
        super().__init__()
        self.attn, self.attn_ln = Attention(width, heads), nn.LayerNorm(width)
        if cross:
            self.cross_attn, self.cross_attn_ln = Attention(width, heads), nn.LayerNorm(width)
        self.mlp1, self.mlp2, self.mlp_ln = (
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
            nn.LayerNorm(width),
        )

    def forward(self, x: Tensor, sound: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the layer's output, and what its cross attention is asked with (else the output again)."""
        x = x + self.attn(self.attn_ln(x), causal=sound is not None)
        asked = x
        if sound is not None:
            asked = self.cross_attn_ln(x)
            x = x + self.cross_attn(asked, sound)
        return x + self.mlp2(F.gelu(self.mlp1(self.mlp_ln(x)))), asked


class Encoder(nn.Module):  # type: ignore[misc]
    """From features to what the decoder attends to, 50 places a second."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["n_audio_state"]
        self.conv1 = nn.Conv1d(config["n_mels"], width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.register_buffer("positions", _sinusoids(config["n_audio_ctx"], width), persistent=False)
        self.blocks = nn.ModuleList(
            Block(width, config["n_audio_head"], cross=False) for _ in range(config["n_audio_layer"])
        )
        self.ln_post = nn.LayerNorm(width)

    def forward(self, mel: Tensor) -> Tensor:
        """Take [batch, frames, mels]."""
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel.transpose(1, 2))))).transpose(1, 2) + self.positions
        for block in self.blocks:
            x, _ = block(x)
        return self.ln_post(x)


class Decoder(nn.Module):  # type: ignore[misc]
    """From tokens and sound to the next tokens."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        width = config["n_text_state"]
        self.token_embedding = nn.Embedding(config["n_vocab"], width)
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        self.positional_embedding = nn.Parameter(torch.randn(config["n_text_ctx"], width) * 0.01)
        self.blocks = nn.ModuleList(
            Block(width, config["n_text_head"], cross=True) for _ in range(config["n_text_layer"])
        )
        self.ln = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, sound: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits [batch, tokens, vocabulary], and what the last layer's cross attention is asked with."""
        x = self.token_embedding(tokens) + self.positional_embedding[: tokens.shape[1]]
        asked = x
        for block in self.blocks:
            x, asked = block(x, sound)
        return self.ln(x) @ self.token_embedding.weight.T, asked


class Whisper(nn.Module):  # type: ignore[misc]
    """The whole model."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def forward(self, mel: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits, and the logarithms of the last layer's attention over the sound."""
        sound = self.encoder(mel)
        logits, asked = self.decoder(tokens, sound)
        last: Any = self.decoder.blocks[-1]
        return logits, last.cross_attn.weights(asked, sound)
