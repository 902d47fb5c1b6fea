"""Each loss against torch's own mean, how shares of a batch add up to it, and what is refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from gradsync.errors import InputError
from gradsync.train.loss import find_loss, loss_sum

CPU = torch.device("cpu")


@given(samples=st.integers(0, 6), classes=st.integers(2, 5), smoothing=st.sampled_from([0.0, 0.1]))
def test_it_is_torchs_cross_entropy(samples: int, classes: int, smoothing: float):
    outputs, labels = torch.randn(samples, classes), torch.randint(0, classes, (samples,))
    expected = cross_entropy(outputs, labels, reduction="sum", label_smoothing=smoothing)
    assert torch.equal(loss_sum(outputs, labels, label_smoothing=smoothing), expected)


def example(loss: str, samples: int) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs, target, and torch's mean over the batch."""
    if loss == "tokens":  # as language models return them: classes last
        outputs, labels = torch.randn(samples, 5, 7), torch.randint(0, 7, (samples, 5))
        return outputs, labels, cross_entropy(outputs.transpose(1, 2), labels)
    if loss == "square":  # as many classes as tokens
        outputs, labels = torch.randn(samples, 4, 4), torch.randint(0, 4, (samples, 4))
        return outputs, labels, cross_entropy(outputs.flatten(0, 1), labels.flatten())
    if loss == "pixels":  # as torch's own: classes second
        outputs, labels = torch.randn(samples, 3, 4, 5), torch.randint(0, 3, (samples, 4, 5))
        return outputs, labels, cross_entropy(outputs, labels)
    outputs, target = torch.randn(samples, 3), torch.rand(samples, 3)
    return outputs, target, (mse_loss if loss == "mse" else binary_cross_entropy_with_logits)(outputs, target)


@given(loss=st.sampled_from(["tokens", "square", "pixels", "mse", "bce"]), first=st.integers(1, 4))
def test_shares_of_a_batch_add_up_to_its_mean(loss: str, first: int):
    outputs, target, mean = example(loss, 5)
    function = find_loss(loss if loss in ("mse", "bce") else "cross-entropy", CPU)
    shares = [
        function(outputs[:first], target[:first], first),
        function(outputs[first:], target[first:], 5 - first),
    ]
    torch.testing.assert_close(sum(shares) / 5, mean)


def test_a_column_beside_a_list_of_targets_is_not_every_pair_of_them():
    outputs, target = torch.randn(6, 1), torch.randn(6)
    torch.testing.assert_close(find_loss("mse", CPU)(outputs, target, 6) / 6, mse_loss(outputs[:, 0], target))
    torch.testing.assert_close(
        find_loss("bce", CPU)(outputs, target > 0, 6) / 6,
        binary_cross_entropy_with_logits(outputs[:, 0], (target > 0).float()),
    )


def test_logits_are_found_in_what_models_return():
    outputs, labels = torch.randn(4, 3), torch.randint(0, 3, (4,))
    for returned in (SimpleNamespace(logits=outputs), {"logits": outputs, "loss": None}):
        assert torch.equal(loss_sum(returned, labels), loss_sum(outputs, labels))


def test_targets_keep_their_precision_where_outputs_have_16_bits():
    outputs, target = torch.tensor([[1234.0]], dtype=torch.bfloat16), torch.tensor([[1234.5]])
    assert find_loss("mse", CPU)(outputs, target, 1).item() == (outputs.float() - target).square().item()


OUTSIDE = "but the model has 3 outputs: labels must be from 0 to 2"


@pytest.mark.parametrize(
    ("outputs", "labels", "sentence"),
    [
        (torch.zeros(4, 1), torch.rand(4, 1), "labels are of type float32: .* --loss mse is for regression"),
        (torch.zeros(4, 3), torch.rand(4, 3).double(), "labels are of type float64"),
        (torch.zeros(4, 3), torch.ones(4).bool(), "labels are of type bool: .* --loss bce for yes or no"),
        (torch.zeros(4, 3), ["cat"] * 4, "labels are of type str: .* must be a class"),
        (torch.zeros(4, 9, 7), torch.zeros(4, 7).long(), "4×9×7, and the labels 4×7: .* samples × tokens × classes"),
        (torch.zeros(4, 7, 7, 9), torch.zeros(4, 7, 7).long(), "the labels 4×7×7: .* samples × classes × height"),
        (torch.zeros(4, 7, 9), torch.zeros(4).long(), "outputs have the shape 4×7×9, and the labels 4:"),
        (torch.zeros(4), torch.zeros(4).long(), "outputs have the shape 4, and the labels 4:"),
        (torch.tensor(1.0), torch.zeros(4).long(), "outputs have the shape of a single number"),
        (torch.zeros(4, 1), torch.zeros(4).long(), "outputs have the shape 4×1, .* two classes or more"),
        (torch.zeros(3, 5), torch.zeros(4).long(), "outputs have the shape 3×5, and the labels 4:"),
        ([torch.zeros(4, 3)], torch.zeros(4).long(), "the model returns a list: .* one tensor"),
        (torch.zeros(4, 3), torch.tensor([0, 1, 2, 3]), f"a label is 3, {OUTSIDE}"),
        (torch.zeros(4, 3), torch.tensor([0, 1, 2, -1]), f"a label is -1, {OUTSIDE}"),
        (torch.zeros(4, 3), torch.full((4,), -100), f"a label is -100, {OUTSIDE}"),
        (torch.zeros(4, 2, 3), torch.full((4, 2), 3), f"a label is 3, {OUTSIDE}"),
        (torch.zeros(4, 3, 2, 2), torch.full((4, 2, 2), 5), f"a label is 5, {OUTSIDE}"),
    ],
)
def test_what_cross_entropy_does_not_fit_is_refused(outputs: object, labels: object, sentence: str):
    with pytest.raises(InputError, match=sentence):
        loss_sum(outputs, labels)


@pytest.mark.parametrize(
    ("loss", "outputs", "target", "sentence"),
    [
        (
            "mse",
            torch.zeros(4, 3),
            torch.zeros(4),
            "shape 4×3, and the targets 4: mse needs a target for every output",
        ),
        ("bce", torch.zeros(4, 3), torch.zeros(4, 2), "shape 4×3, and the targets 4×2: bce"),
        ("bce", torch.zeros(2), torch.tensor([0.0, 2.0]), "--loss bce needs targets from 0 to 1"),
        ("mse", (torch.zeros(4),), torch.zeros(4), "the model returns a tuple"),
        ("mse", torch.zeros(4), ["a"] * 4, "labels are of type str: mse compares numbers"),
    ],
)
def test_what_the_other_losses_do_not_fit_is_refused(loss: str, outputs: object, target: object, sentence: str):
    with pytest.raises(InputError, match=sentence):
        find_loss(loss, CPU)(outputs, target, 4)


OWN = """
import torch
def close(outputs, target): return (outputs - target).abs().mean()
def each(outputs, target): return (outputs - target).abs()
def number(outputs, target): return 1.0
def nothing(outputs, target): pass
def whole(outputs, target): return torch.tensor(3)
def apart(outputs, target): return torch.tensor(3.0)
def breaks(outputs, target): return {}["missing"]
"""


def own(folder: Path, name: str) -> Tensor:
    (folder / "own.py").write_text(OWN)
    outputs = torch.ones(4, 2, requires_grad=True)
    return find_loss(f"{folder / 'own.py'}:{name}", CPU)(outputs, torch.zeros(4, 2), 4)


def test_ones_own_loss_is_a_mean_and_counts_with_its_samples(tmp_path: Path):
    assert own(tmp_path, "close").item() == 4.0


def test_a_class_of_torch_is_a_loss_too():
    outputs, target = torch.randn(4, 2, requires_grad=True), torch.randn(4, 2)
    found = find_loss("torch.nn:SmoothL1Loss", CPU)(outputs, target, 4)
    torch.testing.assert_close(found / 4, torch.nn.functional.smooth_l1_loss(outputs, target))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("each", "must return a tensor of one number, the mean .*: it returned one of shape 4×2, of type float32"),
        ("number", "must return a tensor of one number.*: it returned float"),
        ("nothing", "it returned NoneType"),
        ("whole", "it returned one of shape of a single number, of type int64"),
        ("apart", "does not depend on the model"),
        ("breaks", 'raised an error:\n\n(.|\n)*own.py", line 9, in breaks'),
        ("cloze", "Did you mean close"),
    ],
)
def test_a_loss_that_gives_no_number_is_refused(tmp_path: Path, name: str, sentence: str):
    with pytest.raises(InputError, match=sentence):
        own(tmp_path, name)
