"""What the user brings is looked at before a process starts: one sample, and the model's output for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradsync.check import check
from gradsync.config import RunConfig
from gradsync.data import synthetic
from gradsync.errors import InputError

OWN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

IMAGES = torch.rand(16, 1, 28, 28)
def both(labels): return TensorDataset(IMAGES, labels), TensorDataset(IMAGES, labels)
def classes(): return both(torch.arange(16) % 10)
def small_integers(): return both((torch.arange(16) % 10).to(torch.int16))
def floats(): return both(torch.rand(16, 1))
def tokens(): return both(torch.zeros(16, 7, dtype=torch.long))
def outside(): return both(torch.full((16,), 10))
def left_out(): return both(torch.full((16,), -100))
def words(): return [(image, "cat") for image in IMAGES], [(image, "cat") for image in IMAGES]
def triples(): return [(image, 1, 2) for image in IMAGES], [(image, 1, 2) for image in IMAGES]
def net(outputs=10): return nn.Sequential(nn.Flatten(), nn.Linear(784, outputs))
def two(): return net(2)
def one(): return net(1)
class Sequence(nn.Module):
    def forward(self, images): return images.flatten(2).expand(-1, 9, -1)
class Pair(nn.Module):
    def forward(self, images): return images, images
class Gpu(nn.Module):
    def forward(self, images): raise RuntimeError("expected a GPU")
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)


@pytest.mark.parametrize(
    ("model", "data", "sentence"),
    [
        ("logistic", "floats", "labels are of type float32"),
        ("logistic", "tokens", "a label has the shape 7"),
        ("logistic", "outside", "a label is 10, but the model has 10 outputs: labels must be from 0 to 9"),
        ("logistic", "left_out", "a label is -100"),
        ("logistic", "words", "has labels of type str: each must be a class"),
        ("logistic", "triples", r"of \(tensor, label\) pairs"),
        ("own.py:net", "floats", "labels are of type float32"),
        ("own.py:two", None, "a label is 9, but the model has 2 outputs"),
        ("own.py:one", "classes", "outputs have the shape 1×1 for 1 samples"),
        ("own.py:Sequence", "classes", "outputs have the shape 1×9×784 for 1 samples"),
        ("own.py:Pair", "classes", "the model returns a tuple"),
    ],
)
def test_what_the_loss_does_not_fit_is_refused(model: str, data: str | None, sentence: str):
    chosen = {"data": f"own.py:{data}"} if data else {}
    if model == "own.py:two":
        Path("own.py").write_text(OWN.replace("784, outputs", "3 * 32 * 32, outputs"))  # as synthetic data is for it
    with pytest.raises(InputError, match=sentence):
        check([RunConfig(model=model, **chosen)])


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("logistic", "classes"),
        ("own.py:net", "classes"),
        ("logistic", "small_integers"),
        ("own.py:Gpu", "classes"),  # what cannot be tried here, the ranks will tell
    ],
)
def test_what_fits_is_taken(model: str, data: str):
    assert check([RunConfig(model=model, data=f"own.py:{data}")]).training


def test_a_check_makes_no_synthetic_data(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(synthetic.torch, "randint", lambda *_, **__: pytest.fail("a sample was made"))
    assert check([RunConfig(train_samples=10_000, test_samples=100)])


def test_more_synthetic_data_than_memory_is_refused_before_it_is_made():
    with pytest.raises(InputError, match=r"--train-samples is 100,000,000: synthetic .* may have 5,592,405"):
        check([RunConfig(train_samples=100_000_000)])
    with pytest.raises(InputError, match="--test-samples is 6,000,000"):
        check([RunConfig(test_samples=6_000_000)])


def test_a_worker_beyond_the_samples_is_still_refused():
    with pytest.raises(InputError, match="8 workers cannot share 5 training samples"):
        check([RunConfig(model="logistic", workers=8, train_samples=5)])
