from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from gradsync import models
from gradsync.data import Parts, Wanted, load
from gradsync.data.images import Images
from gradsync.data.synthetic import generate


def parts(train_samples: int) -> Parts:
    return Parts(Wanted(train_samples), Wanted(10))


def everything(images: Images) -> tuple[torch.Tensor, torch.Tensor]:
    return images.batch(torch.arange(len(images)))


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    one, same, other = (generate((3, 32, 32), 10, seed, parts(300))[0] for seed in (1, 1, 2))
    assert torch.equal(one.pixels[:], same.pixels[:])
    assert torch.equal(one.labels[:], same.labels[:])
    assert not torch.equal(one.pixels[:], other.pixels[:])


def test_more_samples_begin_with_the_same_ones():
    few, many = (generate((1, 28, 28), 10, 0, parts(count))[0] for count in (100, 700))
    assert torch.equal(few.pixels[:], many.pixels[:100])


def test_a_rank_makes_only_its_own_part_which_is_the_same_as_of_the_whole():
    whole = generate((1, 28, 28), 10, 0, parts(1000))[0]
    mine = generate((1, 28, 28), 10, 0, Parts(Wanted(1000, rank=1, size=3)))[0]
    assert len(mine) == len(whole) == 1000
    assert torch.equal(mine.pixels[333:666], whole.pixels[333:666])
    assert torch.equal(mine.labels[333:666], whole.labels[333:666])
    for outside in (332, 666):
        with pytest.raises(IndexError, match="samples 333 to 665 only"):
            mine.labels[outside]
    nothing = generate((1, 28, 28), 10, 0, Parts(Wanted(1000, rank=3, size=3)))[0]
    assert len(nothing) == 1000
    with pytest.raises(IndexError):
        nothing.pixels[999]


def test_data_takes_the_shape_of_the_model():
    for name, shape in {"vgg11": (3, 32, 32), "mnist-cnn": (1, 28, 28), "alexnet": (3, 224, 224)}.items():
        assert load("synthetic", native=models.native_data(name), parts=parts(4)).shape == shape


def test_logistic_regression_learns_but_never_perfectly():
    """Fitted until it changes no more: far above chance, far below all right."""
    train, test = generate((1, 28, 28), 10, 0, Parts())
    torch.manual_seed(0)
    model = models.build("logistic", shape=(1, 28, 28), classes=10)
    optimizer = torch.optim.Adam(model.parameters(), 0.01, weight_decay=1e-3)
    inputs, labels = everything(train)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    inputs, labels = everything(test)
    accuracy = (model(inputs).argmax(1) == labels).float().mean().item()
    assert 0.5 < accuracy < 0.9
