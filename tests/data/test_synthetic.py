from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from gradsync import models
from gradsync.data import load
from gradsync.data.images import Images
from gradsync.data.synthetic import generate


def everything(images: Images) -> tuple[torch.Tensor, torch.Tensor]:
    return images.batch(torch.arange(len(images)))


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    one, same, other = (generate((3, 32, 32), 10, seed, 300, 50)[0] for seed in (1, 1, 2))
    assert torch.equal(one.pixels, same.pixels)
    assert torch.equal(one.labels, same.labels)
    assert not torch.equal(one.pixels, other.pixels)


def test_more_samples_begin_with_the_same_ones():
    few, many = (generate((1, 28, 28), 10, 0, count, 10)[0] for count in (100, 700))
    assert torch.equal(few.pixels, many.pixels[:100])


def test_data_takes_the_shape_of_the_model():
    for name, shape in {"vgg11": (3, 32, 32), "mnist-cnn": (1, 28, 28), "alexnet": (3, 224, 224)}.items():
        assert load("synthetic", native=models.native_data(name), train_samples=4, test_samples=2).shape == shape


def test_logistic_regression_learns_but_never_perfectly():
    """Fitted until it changes no more: far above chance, far below all right."""
    train, test = generate((1, 28, 28), 10, 0, None, None)
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
