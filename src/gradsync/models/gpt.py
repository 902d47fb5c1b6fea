"""A decoder-only transformer, as GPT-2 (Radford et al. 2019): pre-norm, learned positions, tied embeddings.

The default is as large as the GPT that nanoGPT trains on characters: 6 layers of width 384, 10.8 M parameters.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from gradsync.errors import InputError

SPREAD = 0.02  # of the initial weights
LARGEST = {"width": 65_536, "depth": 1_000, "heads": 65_536, "context": 1_000_000}


class Attention(nn.Module):
    """Every position attends to itself and to those before it."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        each = self.query_key_value(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = each.permute(2, 0, 3, 1, 4).unbind()
        rate = self.dropout if self.training else 0.0
        found = scaled_dot_product_attention(query, key, value, is_causal=True, dropout_p=rate)
        return self.output(found.transpose(1, 2).reshape(batch, length, width))


class TransformerBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.first_norm, self.attend = nn.LayerNorm(width), Attention(width, heads, dropout)
        self.second_norm = nn.LayerNorm(width)
        self.widen, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.attend(self.first_norm(x)))
        return x + self.drop(self.shrink(gelu(self.widen(self.second_norm(x)), approximate="tanh")))


class GPT(nn.Module):
    """Tokens (batch × positions) to the logits of the token after each (batch × positions × vocabulary)."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int, context: int, dropout: float) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)  # also the last layer
        self.position = nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        blocks = [TransformerBlock(width, heads, dropout) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.apply(initialize)
        for block in blocks:  # each adds to the same sum, whose spread then does not grow with the depth
            for last in (block.attend.output, block.shrink):
                nn.init.normal_(last.weight, std=SPREAD / (2 * depth) ** 0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        if length > self.position.num_embeddings:
            raise InputError(
                f"a sample has {length} tokens, and the model a context of {self.position.num_embeddings}. "
                f"HINT: --model-options.context {length}."
            )
        x = self.token(tokens) + self.position(torch.arange(length, device=tokens.device))
        return linear(self.norm(self.blocks(self.drop(x))), self.token.weight)


def initialize(part: nn.Module) -> None:
    """As GPT-2: normal weights with a small spread, biases of zero."""
    if isinstance(part, (nn.Linear, nn.Embedding)):
        nn.init.normal_(part.weight, std=SPREAD)
    if isinstance(part, nn.Linear):
        nn.init.zeros_(part.bias)


def gpt(
    vocabulary: int, *, width: int = 384, depth: int = 6, heads: int = 6, context: int = 64, dropout: float = 0.0
) -> nn.Module:
    for name, value in {"width": width, "depth": depth, "heads": heads, "context": context}.items():
        if not 1 <= value <= LARGEST[name]:
            raise InputError(f"--model-options.{name} is {value}: it must be from 1 to {LARGEST[name]:,}.")
    if width % heads:
        raise InputError(f"--model-options.width is {width}: it must be a multiple of the {heads} heads.")
    if not 0 <= dropout < 1:
        raise InputError(f"--model-options.dropout is {dropout:g}: it must be 0 or more, and less than 1.")
    return GPT(vocabulary, width, depth, heads, context, dropout)
