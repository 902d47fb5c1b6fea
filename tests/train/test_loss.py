"""The one loss there is, and what is refused because it would give a number that means something else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from gradsync.errors import InputError
from gradsync.train.loss import loss_sum


@given(samples=st.integers(0, 6), classes=st.integers(2, 5), smoothing=st.sampled_from([0.0, 0.1]))
def test_it_is_torchs_cross_entropy(samples: int, classes: int, smoothing: float):
    outputs, labels = torch.randn(samples, classes), torch.randint(0, classes, (samples,))
    expected = cross_entropy(outputs, labels, reduction="sum", label_smoothing=smoothing)
    assert torch.equal(loss_sum(outputs, labels, smoothing), expected)


@pytest.mark.parametrize(
    ("outputs", "labels", "sentence"),
    [
        (torch.zeros(4, 1), torch.rand(4, 1), "labels are of type float32: .* such as those for regression"),
        (torch.zeros(4, 3), torch.rand(4, 3).double(), "labels are of type float64"),
        (torch.zeros(4, 3), torch.ones(4).bool(), "labels are of type bool"),
        (torch.zeros(4, 9, 7), torch.zeros(4, 7).long(), "a label has the shape 7: .* tokens or pixels"),
        (torch.zeros(4, 9, 7, 7), torch.zeros(4, 7, 7).long(), "a label has the shape 7×7"),
        (torch.zeros(4, 7, 9), torch.zeros(4).long(), "outputs have the shape 4×7×9 for 4 samples"),
        (torch.zeros(4), torch.zeros(4).long(), "outputs have the shape 4 for 4 samples"),
        (
            torch.zeros(4, 1),
            torch.zeros(4).long(),
            "outputs have the shape 4×1 for 4 samples: .* two classes or more",
        ),
        (torch.zeros(3, 5), torch.zeros(4).long(), "outputs have the shape 3×5 for 4 samples"),
        ([torch.zeros(4, 3)], torch.zeros(4).long(), "the model returns a list: .* one tensor"),
        (torch.zeros(4, 3), torch.tensor([0, 1, 2, 3]), "a label is 3, but the model has 3 outputs: .* from 0 to 2"),
        (torch.zeros(4, 3), torch.tensor([0, 1, 2, -1]), "a label is -1, but the model has 3 outputs"),
        (torch.zeros(4, 3), torch.full((4,), -100), "a label is -100, but the model has 3 outputs"),
    ],
)
def test_what_is_not_one_class_for_each_sample_is_refused(outputs: object, labels: torch.Tensor, sentence: str):
    with pytest.raises(InputError, match=sentence):
        loss_sum(outputs, labels)  # type: ignore[arg-type]
