"""Every figure has a name, a title, a meaning, a unit and a form, and gives what a run of known times makes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from exhibited import cluster_shape, steps_of, with_figures
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import CATALOGUE, FIGURES, ROOMS, figures_in, find_figure, of_time
from gradsync.figures.figure import UNITS, At, Figure, FigureOf
from gradsync.figures.value import Spread, written
from gradsync.record import Run
from made_up import PARAMETERS, made_up

DEFINED = [figure for room in ROOMS.values() for figure in figures_in(room)]


def test_names_are_unique():
    """Else one would hide the other in the catalogue."""
    assert len({id(figure) for figure in DEFINED}) == len(CATALOGUE)
    assert {figure.name for figure in DEFINED} == set(CATALOGUE)
    assert {name for name, figure in CATALOGUE.items() if isinstance(figure, Figure)} == set(FIGURES)


@pytest.mark.parametrize("figure", CATALOGUE.values(), ids=CATALOGUE)
def test_a_figure_says_what_it_is_and_how_it_is_written(figure: FigureOf[Any]):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", figure.name)
    assert figure.title
    assert figure.meaning and not figure.meaning.endswith("."), "notes are joined to sentences"
    assert figure.note == f"{figure.title}: {figure.meaning}"
    assert figure.unit in UNITS
    assert figure.full_title
    for value in (0.0, 0.5, 1234.5, Spread(0.5, 0.1)):
        assert re.search(r"\d", written(value, figure.form))
    if "%" in figure.form:
        assert figure.unit == "", "a share that is written in percent has no unit beside that"


def test_an_unknown_figure_lists_what_there_is():
    assert find_figure("epoch") is of_time.EPOCH
    with pytest.raises(InputError, match=r"unknown figure 'epok'.*Did you mean epoch"):
        find_figure("epok")


def value(run: Run, name: str, rank: int | None = None, x: float | None = None) -> float | None:
    return FIGURES[name].of(At(run, rank, x))


def test_the_epoch_is_the_last_whole_one_everywhere(tmp_path: Path):
    """The terminal showed the mean of [10, 6], the page the last."""
    run = with_figures(steps_of(tmp_path, "ddp", 2, 0.1), epoch_seconds=[10.0, 6.0])
    assert value(run, "epoch") == 6.0
    assert Case((run,)).value(of_time.EPOCH) == 6.0
    assert [value(run, "epoch-at", x=number) for number in (1, 2, 3)] == [10.0, 6.0, None]


def test_an_epoch_that_did_not_end_is_its_steps_at_the_measured_pace(tmp_path: Path):
    run = steps_of(tmp_path, "ddp", 2, 0.5, steps=3)
    assert run.summary and of_time.is_projected(run.summary)
    assert value(run, "epoch") == pytest.approx(5.0)  # ten steps
    assert value(with_figures(run, steps_per_epoch=None), "epoch") is None
    assert value(with_figures(run, seconds_per_step=None), "epoch") is None


@pytest.fixture
def measured(tmp_path: Path) -> Run:
    """Two workers, two epochs of ten steps: 0.1 ms of data, 100 ms of forward, 50 ms of all-reduce."""
    config = RunConfig(model="logistic", strategy="all-reduce", workers=2, batch_size=64, epochs=2)
    return made_up(tmp_path, config, compute=0.1, wire=0.05, accuracy=0.75)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("step", 0.1501),
        ("samples", 64 / 0.1501),
        ("epoch", 1.501),
        ("epoch-without-data", 1.5),
        ("train", 3.002),
        ("compute-step", 0.1),
        ("communication-step", 0.05),
        ("hidden", 0.0),
        ("forward-step", 0.1),
        ("wire-step", 0.05),
        ("rest-step", 1e-4),
        ("compute", 1.0),
        ("communication", 0.5),
        ("wire", 0.5),
        ("rest", 0.001),
        ("train-loss", 0.5),
        ("accuracy", 0.75),
        ("updates", 20.0),
        ("steps", 20.0),
        ("sent", 2 * 20 * 4.0 * PARAMETERS),
        ("sent-step", 2 * 4.0 * PARAMETERS),
        ("sent-epoch", 2 * 10 * 4.0 * PARAMETERS),
        ("sent-per-worker", 20 * 4.0 * PARAMETERS),
        ("sent-rank-epoch", 10 * 4.0 * PARAMETERS),
        ("formula-epoch", 10 * 4.0 * PARAMETERS),
        ("closed-form", 2 * 4.0 * PARAMETERS),
        ("overhead", 0.0),
        ("gradients-step", 4.0 * PARAMETERS),
        ("bandwidth", 4.0 * PARAMETERS / 0.05),
        ("forward-share", 0.1 / 0.1501),
        ("compute-share", 0.1 / 0.1501),
        ("communication-share", 0.05 / 0.1501),
        ("hidden-share", 0.0),
        ("cpu-cores", 2 * 2.0 / 3.002),
        ("memory", 1e8),
    ],
)
def test_figures_of_a_run_whose_times_are_known(measured: Run, name: str, expected: float):
    assert value(measured, name) == pytest.approx(expected, rel=1e-3, abs=1e-9)


def test_figures_of_one_rank_are_its_own(measured: Run):
    assert value(measured, "step", rank=1) == pytest.approx(0.1501)
    assert value(measured, "sent-step", rank=1) == pytest.approx(4.0 * PARAMETERS)
    assert value(measured, "finish", rank=1) == pytest.approx(3.002)
    assert value(measured, "train-loss", rank=1) == pytest.approx(0.5)
    assert value(measured, "cpu-cores", rank=1) == pytest.approx(2.0 / 3.002, rel=1e-3)


def test_losses_up_to_a_step(measured: Run):
    assert value(measured, "loss-sum-20", x=20) == pytest.approx(10 * 1.0 + 10 * 0.5)
    assert value(measured, "loss-sum-20", x=19) is None
    assert value(measured, "running-loss", x=14) == pytest.approx((10 * 1.0 + 5 * 0.5) / 15)
    assert value(measured, "running-loss", x=20) is None
    assert [value(measured, "train-loss-epoch", x=number) for number in (1, 2, 3)] == [1.0, 0.5, None]


def test_what_an_unfinished_run_does_not_tell_yet_is_none(tmp_path: Path, measured: Run):
    (measured.folder / "summary.json").unlink()
    cut = Run(measured.folder, measured.asked, None)
    assert value(cut, "total") is None
    assert value(cut, "step") == pytest.approx(0.1501)


def test_gradients_are_those_that_were_recorded(measured: Run):
    """Half of the parameters are frozen, or all are of half precision."""
    assert measured.summary and measured.summary.gradient_bytes == 4 * PARAMETERS
    half = with_figures(measured, gradient_bytes=2 * PARAMETERS)
    assert value(half, "bandwidth") == pytest.approx(2.0 * PARAMETERS / 0.05, rel=1e-3)
    assert value(with_figures(measured, gradient_bytes=0), "bandwidth") is None


def test_a_record_without_gradient_bytes_is_taken_to_train_all_parameters(measured: Run):
    old = with_figures(measured, gradient_bytes=None)
    assert value(old, "bandwidth") == pytest.approx(4.0 * PARAMETERS / 0.05, rel=1e-3)
    assert value(with_figures(old, precision="fp64"), "bandwidth") == pytest.approx(8.0 * PARAMETERS / 0.05, rel=1e-3)


def test_the_bandwidth_used_is_compared_with_the_link_of_a_node(measured: Run):
    assert value(measured, "link") is None and value(measured, "link-share") is None
    linked = with_figures(measured, cluster=cluster_shape(bandwidth="1gbit"))
    assert value(linked, "link") == pytest.approx(125e6)
    assert value(linked, "link-share") == pytest.approx(4.0 * PARAMETERS / 0.05 / 125e6, rel=1e-3)


def test_a_value_is_written_in_the_unit_and_form_of_its_figure():
    assert FIGURES["accuracy"].text(0.93125) == "93.12%"
    assert FIGURES["wire-step"].text(Spread(0.0123, 0.001)) == "12.3 ± 1.0"
    assert FIGURES["speed-up"].text(1.5) == "1.50"
    assert FIGURES["efficiency"].text(None) == "–"


def test_in_another_unit_the_number_has_the_format_of_its_figure_if_it_can():
    assert (FIGURES["accuracy"].form_in("%"), FIGURES["test-loss"].form_in("")) == (".2f", ".3f")
    assert (FIGURES["read"].form_in("s"), FIGURES["read"].form_in("min")) == (".2f", "")


def test_on_an_axis_a_share_is_in_percent():
    assert (FIGURES["accuracy"].bare_unit, FIGURES["step"].bare_unit, FIGURES["updates"].bare_unit) == ("%", "s", "")
