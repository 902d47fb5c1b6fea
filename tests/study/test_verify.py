"""Verdicts, without processes."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
import torch
from rich.console import Console

from gradsync.errors import InputError
from gradsync.report.verify import conclusion, findings_table
from gradsync.study.verify import Finding, VerifyConfig, judge, parameter_distance

ROUNDING = 1e-8


@pytest.mark.parametrize(
    ("distance", "same_bits", "lossy", "by_share", "verdict"),
    [
        (0.0, True, False, False, "exact"),
        (1e-15, True, False, False, "equal to rounding"),
        (1e-3, True, False, False, "wrong"),
        (0.0, False, False, False, "wrong"),
        (math.inf, True, True, True, "wrong"),
        (1e-3, True, True, False, "approximate by design"),
        (1e-3, False, True, False, "approximate by design"),
        (0.0, True, True, False, "approximate by design"),
        (1e-3, True, False, True, "approximate by design"),
        (1e-3, False, False, True, "wrong"),
    ],
)
def test_the_verdict(distance: float, same_bits: bool, lossy: bool, by_share: bool, verdict: str):
    assert judge(distance, same_bits, ROUNDING, lossy, by_share) == verdict


def save(folder: Path, **tensors: list[float]) -> Path:
    folder.mkdir()
    torch.save({name: torch.tensor(values) for name, values in tensors.items()}, folder / "model.pt")
    return folder


def test_the_distance_is_the_worst_parameter_relative_to_its_largest_number(tmp_path: Path):
    one = save(tmp_path / "one", weight=[4.0, 0.0], bias=[0.1], running_mean=[9.0])
    other = save(tmp_path / "other", weight=[4.0, 1.0], bias=[0.1], running_mean=[0.0])
    assert parameter_distance(other, one, {"weight", "bias"}) == pytest.approx(0.25)
    assert parameter_distance(one, one, {"weight", "bias"}) == 0.0
    near_zero = save(tmp_path / "near", weight=[4.0, 0.0], bias=[1e-12], running_mean=[0.0])
    nearer = save(tmp_path / "nearer", weight=[4.0, 0.0], bias=[3e-12], running_mean=[0.0])
    assert parameter_distance(nearer, near_zero, {"weight", "bias"}) < 1e-6, "noise about zero is no distance"
    lost = save(tmp_path / "lost", weight=[4.0, math.nan], bias=[0.1], running_mean=[9.0])
    assert parameter_distance(lost, one, {"weight", "bias"}) == math.inf


def test_the_batch_splits_over_every_number_of_workers_or_is_refused():
    assert VerifyConfig(workers=(2, 3, 4)).batch_size == 24
    assert VerifyConfig(workers=(5, 7)).batch_size == 35
    with pytest.raises(InputError, match="does not split evenly over 3 workers"):
        VerifyConfig(workers=(2, 3), batch_size=16)
    with pytest.raises(InputError, match="each must be from 1 to 10,000"):
        VerifyConfig(workers=(0, 2))
    with pytest.raises(InputError, match="set --batch-size"):
        VerifyConfig(batch_per_worker=4)


def test_it_is_20_steps_unless_asked_otherwise():
    assert (VerifyConfig().steps, VerifyConfig(steps=3).steps) == (20, 3)
    assert VerifyConfig(epochs=2).run("ddp", 2).resolved().steps is None
    with pytest.raises(InputError, match="event files"):
        VerifyConfig(tensorboard=True)


def test_what_an_error_says_is_shown_as_it_is():
    """Gloo's messages begin with a path in brackets, which rich would take for a tag."""
    console = Console(file=io.StringIO(), width=200, markup=False)  # as make_console's
    odd = Finding(
        "[/x].py:Mine", 2, 0, "gloo", None, None, "RuntimeError: [/gloo/pair.cc:547] Connection closed", "failed", "x"
    )
    console.print(findings_table([odd], VerifyConfig(model="[/m].py:f")))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[/gloo/pair.cc:547] Connection closed" in shown
    assert "[/x].py:Mine" in shown
    assert "[/m].py:f" in shown


def test_the_conclusion_counts_no_lossy_strategy_as_passed():
    good = Finding("ddp", 2, 0, "gloo", 0.0, True, "", "exact", "x")
    lossy = Finding("squeezed", 2, 0, "gloo", 0.1, True, "lossy by design", "approximate by design", "x")
    bad = Finding("mine", 3, 0, "gloo", 0.1, False, "", "wrong", "x")
    assert conclusion([good, good]) == "2 of 2 compute the model of one process."
    assert conclusion([good, lossy]).startswith(
        "1 of 2 compute the model of one process; 1 are approximate by design"
    )
    assert conclusion([good, bad]) == "1 of 2 do not compute the model of one process: mine on 3."
