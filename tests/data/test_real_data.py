"""On the real files, where they are: every hash, and that the pictures are what they should be."""

from __future__ import annotations

import pytest

from gradsync.data import FILE_SETS, data_folder, load


def needs(name: str) -> pytest.MarkDecorator:
    found = FILE_SETS[name].locate(data_folder()) is not None
    return pytest.mark.skipif(not found, reason=f"{name} is not in {data_folder()}: gradsync data fetch {name}")


@needs("mnist")
def test_real_mnist():
    samples = load("mnist", native=((), 0))
    assert (len(samples.train), len(samples.test)) == (60_000, 10_000)
    assert samples.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert samples.train.pixels[:].float().mean().item() / 255 == pytest.approx(0.1307, abs=1e-4)


@needs("cifar10")
def test_real_cifar10():
    samples = load("cifar10", native=((), 0))
    assert (len(samples.train), len(samples.test)) == (50_000, 10_000)
    assert samples.train.labels[:].bincount().tolist() == [5000] * 10
    mean = samples.train.pixels[:].float().mean((0, 1, 2)) / 255
    assert mean.tolist() == pytest.approx(samples.train.mean, abs=2e-3)


@needs("mnist")
def test_logistic_regression_on_real_mnist_reaches_what_the_reports_say(train):
    """The TensorFlow report: 90 % with a batch of 100 and a learning rate of 0.01 after 10 epochs."""
    run = train(model="logistic", data="mnist", batch_size=100, lr=0.01, epochs=1, strategy="all-reduce", workers=2)
    assert run.status == "completed"
    assert run.summary.test.count == 10_000
    assert run.summary.test.accuracy > 0.9
