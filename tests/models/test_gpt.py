"""A decoder: no position sees those after it, and its options change what they say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from gradsync import models
from gradsync.data import Parts, Wanted, load
from gradsync.data.text import ENTROPY
from gradsync.errors import InputError

SMALL = {"width": "32", "depth": "2", "heads": "4", "context": "16"}


def build(**options: str) -> Any:
    torch.manual_seed(0)
    shape, classes = models.native_data("gpt", SMALL | options)
    return models.build("gpt", shape=shape, classes=classes, options=SMALL | options, is_tokens=True)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Several would spend their time waiting for each other, on so small a model and a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_a_position_depends_on_those_before_it_and_on_none_after():
    model = build().double()
    tokens = torch.randint(0, 256, (2, 16))
    before = model(tokens)
    assert before.shape == (2, 16, 256)
    changed = tokens.clone()
    changed[:, 9] = (changed[:, 9] + 1) % 256
    after = model(changed)
    assert torch.equal(before[:, :9], after[:, :9])
    assert (before[:, 9:] - after[:, 9:]).abs().amax((0, 2)).min() > 0
    assert torch.allclose(model(tokens[:, :5]), before[:, :5]), "shorter texts than the context are fine"


def test_it_begins_as_uncertain_as_it_can_be_and_learns_the_text():
    model = build(dropout="0")
    text = load("synthetic", native=models.native_data("gpt", SMALL), parts=Parts(Wanted(256), Wanted(64)))
    tokens, following = text.train.batch(torch.arange(256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(120):
        part = slice(64 * (step % 4), 64 * (step % 4) + 64)
        loss = cross_entropy(model(tokens[part]).flatten(0, 1), following[part].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(256), abs=0.1)
    held, answers = text.test.batch(torch.arange(64))
    with torch.no_grad():
        tested = cross_entropy(model(held).flatten(0, 1), answers.flatten()).item()
    assert ENTROPY - 0.05 < tested < 2.0


def test_the_embeddings_are_the_last_layer_too_and_weights_begin_as_in_gpt_2():
    model = build()
    names = [name for name, _ in model.named_parameters()]
    assert len(names) == len(set(names)) and not any("head" in name for name in names)
    assert model.token.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert model.blocks[0].shrink.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert models.by_share(model, sync_bn=False) == []
    assert models.by_share(build(dropout="0.1"), sync_bn=False) == ["dropout draws differ between workers"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"width": "33"}, "width is 33: it must be a multiple of the 4 heads"),
        ({"depth": "0"}, "--model-options.depth is 0: it must be from 1 to 1,000"),
        ({"context": "1e3"}, "--model-options.context is 1e3: it must be a whole number"),
        ({"dropout": "1"}, "dropout is 1: it must be 0 or more, and less than 1"),
        ({"hieght": "3"}, "unknown option of gpt 'hieght'.* Known: context, depth, dropout, heads, width"),
    ],
)
def test_options_it_cannot_have_are_refused(options: dict[str, str], sentence: str):
    with pytest.raises(InputError, match=sentence):
        build(**options)


def test_more_tokens_than_its_context_are_refused():
    with pytest.raises(InputError, match=r"a sample has 17 tokens, .* HINT: --model-options.context 17"):
        build()(torch.zeros(1, 17, dtype=torch.long))


def test_images_are_not_for_it_and_text_not_for_the_others():
    with pytest.raises(InputError, match="gpt takes sequences of tokens, the data has 3×32×32"):
        models.build("gpt", shape=(3, 32, 32), classes=10)
    with pytest.raises(InputError, match="logistic takes images, the data has sequences of tokens"):
        models.build("logistic", shape=(64,), classes=256, is_tokens=True)
    with pytest.raises(InputError, match="vgg11 takes images, the data has other inputs"):
        models.build("vgg11", shape=None, classes=10)
    with pytest.raises(InputError, match=r"unknown option of vgg11 'width'\. None exist"):
        models.build("vgg11", shape=(3, 32, 32), classes=10, options={"width": "3"})
