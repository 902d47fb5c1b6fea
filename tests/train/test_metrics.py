"""The metrics: sums over samples that add up, and become figures of the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, mse_loss

from gradsync.config.task import check_task, figure_of, mean_of_figure, metrics_for
from gradsync.errors import InputError
from gradsync.train.metrics import find_metric


def figure(name: str, loss: str, outputs: torch.Tensor, target: torch.Tensor, cut: int) -> float:
    """Of a batch in two shares."""
    function = find_metric(name, loss)
    sums = [function(outputs[part], target[part], len(target[part])) for part in (slice(cut), slice(cut, None))]
    found = figure_of(name.rpartition(":")[2], float(sum(sums)) / len(target))
    assert found is not None
    return found


@given(cut=st.integers(1, 5))
def test_shares_add_up_to_the_figure_of_the_whole(cut: int):
    classes, labels = torch.randn(6, 3), torch.randint(0, 3, (6,))
    tokens, each = torch.randn(6, 5, 7), torch.randint(0, 7, (6, 5))
    logits, yes = torch.randn(6, 2), torch.rand(6, 2) > 0.5
    share = (classes.argmax(1) == labels).float().mean().item()
    assert figure("accuracy", "cross-entropy", classes, labels, cut) == pytest.approx(share)
    share = (tokens.argmax(2) == each).float().mean().item()
    assert figure("accuracy", "cross-entropy", tokens, each, cut) == pytest.approx(share)
    share = ((logits > 0) == yes).float().mean().item()
    assert figure("accuracy", "bce", logits, yes, cut) == pytest.approx(share)
    perplexity = cross_entropy(tokens.flatten(0, 1), each.flatten()).exp().item()
    assert figure("perplexity", "cross-entropy", tokens, each, cut) == pytest.approx(perplexity, rel=1e-5)
    root = mse_loss(logits, yes.float()).sqrt().item()
    assert figure("rmse", "mse", logits, yes, cut) == pytest.approx(root, rel=1e-5)


def test_with_ones_own_loss_whole_numbers_are_classes():
    own = "file.py:loss"
    assert find_metric("accuracy", own)(torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.tensor([1, 1]), 2) == 1
    assert find_metric("accuracy", own)(torch.tensor([0.5, -0.5]), torch.tensor([1.0, 1.0]), 2) == 1


@given(value=st.floats(1e-3, 1e3), name=st.sampled_from(["perplexity", "rmse", "accuracy", "own"]))
def test_a_figure_leads_back_to_the_mean_it_was_made_of(value: float, name: str):
    made = figure_of(name, value)
    if made is not None:
        assert mean_of_figure(name, made) == pytest.approx(value)


def test_a_figure_without_bounds_is_none():
    assert figure_of("perplexity", 1e4) is None
    assert figure_of("own", float("nan")) is None
    assert figure_of("rmse", -1.0) is None
    assert mean_of_figure("perplexity", 0.0) is None


@pytest.mark.parametrize(
    ("metrics", "loss", "model", "found"),
    [
        ((), "cross-entropy", "vgg11", ("accuracy",)),
        ((), "cross-entropy", "gpt", ("perplexity",)),
        ((), "mse", "gpt", ("rmse",)),
        ((), "bce", "vgg11", ("accuracy",)),
        ((), "own.py:loss", "vgg11", ()),
        (("none",), "cross-entropy", "vgg11", ()),
        (("perplexity", "own.py:f1"), "cross-entropy", "vgg11", ("perplexity", "own.py:f1")),
    ],
)
def test_the_usual_metrics_follow_from_the_loss(
    metrics: tuple[str, ...], loss: str, model: str, found: tuple[str, ...]
):
    check_task(loss, metrics)
    assert metrics_for(metrics, loss, model) == found


@pytest.mark.parametrize(
    ("loss", "metrics", "sentence"),
    [
        ("mse", ("accuracy",), "--metric accuracy has no meaning with --loss mse: it is for cross-entropy and bce"),
        ("cross-entropy", ("rmse",), "--metric rmse has no meaning with --loss cross-entropy"),
        ("mse", ("none", "rmse"), "names none and others"),
        ("mse", ("a.py:f", "b.py:f"), "two metrics would be called f"),
        ("mse", ("own.py:rmse",), "two metrics would be called rmse"),
        ("huber", (), "unknown loss 'huber'"),
    ],
)
def test_what_has_no_meaning_is_refused(loss: str, metrics: tuple[str, ...], sentence: str):
    with pytest.raises(InputError, match=sentence):
        check_task(loss, metrics)


@pytest.mark.parametrize(
    ("name", "sentence"), [("breaks", "line 3, in breaks\n(.|\n)*ZeroDivisionError"), ("words", "it returned str")]
)
def test_a_metric_that_raises_or_gives_no_number_is_refused(tmp_path: Path, name: str, sentence: str):
    (tmp_path / "own.py").write_text(
        "\ndef breaks(outputs, target):\n    return 1 / 0\ndef words(*_): return 'good'\n"
    )
    with pytest.raises(InputError, match=sentence):
        find_metric(f"{tmp_path / 'own.py'}:{name}", "mse")(torch.zeros(2), torch.zeros(2), 2)
