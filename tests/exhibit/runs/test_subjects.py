"""Names of runs: what they differ in, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhibited import steps_of, subjects, with_figures


def test_names_tell_runs_apart_by_what_they_differ_in(tmp_path: Path):
    runs = [
        steps_of(tmp_path, "ddp", workers, 0.5, batch_size=batch)
        for workers, batch in ((2, 64), (4, 64), (4, 128), (4, 128))
    ]
    names = [item.name for item in subjects(runs)]
    assert names == ["ddp × 2, batch 64", "ddp × 4, batch 64", "ddp × 4, batch 128", "ddp × 4, batch 128 (2)"]


def test_where_strategies_tell_runs_apart_these_are_their_names(tmp_path: Path):
    runs = [steps_of(tmp_path, way, workers, 0.5) for way, workers in (("local", 1), ("ddp", 2), ("ring", 4))]
    assert [item.name for item in subjects(runs)] == ["local", "ddp", "ring"]
    with_options = [with_figures(runs[1], options={"bucket-mb": size}) for size in ("1", "25")]
    assert [item.name for item in subjects(with_options)] == ["ddp (bucket-mb 1)", "ddp (bucket-mb 25)"]


def test_nodes_and_learning_rates_are_named_where_they_differ(tmp_path: Path):
    rates = [steps_of(tmp_path, "ddp", 2, 0.5, lr=lr) for lr in (0.1, 0.2)]
    assert [item.name for item in subjects(rates)] == ["ddp, learning rate 0.1", "ddp, learning rate 0.2"]
    nodes = [with_figures(rates[0], nodes=nodes) for nodes in (1, 2)]
    assert [item.name for item in subjects(nodes)] == ["ddp on 1 node", "ddp on 2 nodes"]


@pytest.mark.parametrize(
    ("setting", "values", "names"),
    [
        ("precision", ("fp32", "bf16"), ("fp32", "bf16")),
        ("optimizer", ("sgd", "adam"), ("sgd", "adam")),
        ("threads", (1, 2), ("threads 1", "threads 2")),
        ("norm", ("batch", "none"), ("norm batch", "norm none")),
        ("accumulate", (1, 2), ("accumulate 1", "accumulate 2")),
        ("momentum", (0.0, 0.9), ("momentum 0.0", "momentum 0.9")),
        ("memory", ("1GB", "2GB"), ("1GB of memory", "2GB of memory")),
        ("compile", (False, True), ("no compile", "compile")),
        ("model_options", ({"width": "64"}, {"width": "256"}), ("width 64", "width 256")),
    ],
)
def test_any_setting_in_which_runs_differ_is_in_their_names(tmp_path: Path, setting: str, values, names):
    """It was "ddp" and "ddp (2)"."""
    runs = [steps_of(tmp_path, "ddp", 2, 0.5, **{setting: value}) for value in values]
    assert [item.name for item in subjects(runs)] == [f"ddp, {name}" for name in names]


def test_of_two_settings_both_are_named_where_it_takes_both(tmp_path: Path):
    runs = [
        steps_of(tmp_path, "ddp", 2, 0.5, lr=lr, precision=precision)
        for lr in (0.1, 0.2)
        for precision in ("fp32", "bf16")
    ]
    assert [item.name for item in subjects(runs)][:2] == [
        "ddp, learning rate 0.1, fp32",
        "ddp, learning rate 0.1, bf16",
    ]


def test_a_name_says_no_more_than_it_takes(tmp_path: Path):
    """The same work asked for in two ways cannot be told apart by what else is known of it."""
    ways = [("local", 1, 64), ("ddp", 2, 64), ("local", 1, 64), ("ddp", 2, 128)]
    runs = [steps_of(tmp_path, way, workers, 0.5) for way, workers, _ in ways]
    sized = [with_figures(run, batch_size=size, transport=None) for run, (_, _, size) in zip(runs, ways, strict=True)]
    assert [item.name for item in subjects(sized)] == [
        "local, batch 64",
        "ddp, batch 64",
        "local, batch 64 (2)",
        "ddp, batch 128",
    ]
