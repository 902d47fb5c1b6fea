"""A label that is wrong further on, which no look at the first sample tells: the run fails with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

OWN = """
import torch
from torch.utils.data import TensorDataset
IMAGES, RIGHT = torch.rand(16, 1, 28, 28), torch.arange(16) % 10
def both(train, test): return TensorDataset(IMAGES, train), TensorDataset(IMAGES, test)
def late(): return both(torch.where(torch.arange(16) == 13, 10, RIGHT), RIGHT)
def in_the_test(): return both(RIGHT, torch.full((16, 2), 1))
"""


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("late", "a label is 10, but the model has 10 outputs: labels must be from 0 to 9"),
        ("in_the_test", "outputs have the shape 8×10, and the labels 8×2: for cross-entropy"),
    ],
)
def test_a_run_with_labels_the_loss_does_not_fit_fails_with_a_sentence(
    train, tmp_path: Path, data: str, sentence: str
):
    (tmp_path / "own.py").write_text(OWN)
    run = train(model="logistic", data=f"{tmp_path / 'own.py'}:{data}", batch_size=16, strategy="ring", workers=2)
    assert run.status == "failed"
    error = run.summary.error
    assert error.type == "InputError" and sentence in error.message
    assert error.traceback == ""
