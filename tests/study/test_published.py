"""The published files: nothing of the reports is forgotten, and everything in them has a run of ours."""

from __future__ import annotations

import pytest

from gradsync.errors import InputError
from gradsync.study import published
from gradsync.study.quantities import QUANTITIES, UNITS
from gradsync.study.reports import REPORTS, Asked, Scale
from gradsync.study.reproduce import Reproduction

# What the reports number, and what they show without a number.
HELD = {
    "cs744-vgg11-2317": [f"Fig {n}" for n in ("1.1", "2.a.1", "2.a.2", "2.b.1", "2.b.2", "3.1", "3.2", "4.1", "4.2")],
    "cs744-vgg11-14": ["Part 1", "Part 2a", "Part 2b", "Part 3"]
    + [f"Figure 3.{n}" for n in (1, 2, 3)]
    + ["Conclusion"],
    "hpml-lab4": [f"Table {n}" for n in (1, 2, 3)] + [f"Question {n}" for n in range(1, 8)],
    "cs744-tensorflow": [f"Figure {n}" for n in (1, 2, 3, 14, 15, 16, 17)] + [f"Table {n}" for n in range(1, 10)],
    "mpi-mnist": ["Table 2", *(f"Figure {n}" for n in (6, 7, 8, 9)), "Accuracy against processes", "GPU run"],
}
EVERYTHING = {"real_data": ("cifar10", "mnist"), "gpu": True}


@pytest.mark.parametrize("name", published.NAMES)
def test_every_table_and_figure_of_the_report_is_there(name: str):
    assert sorted(published.read(name).names) == sorted(HELD[name])


@pytest.mark.parametrize("scale", ["full", "short", "smoke"])
@pytest.mark.parametrize("name", published.NAMES)
def test_every_row_and_every_claim_has_a_run_of_ours(name: str, scale: Scale):
    report = published.read(name)
    made = REPORTS[name].cases(Asked(scale, **EVERYTHING))
    assert set(Reproduction(report=name, scale=scale, **EVERYTHING).cases()) == set(made)
    for config in made.values():
        config.resolved()
    for item in report.exhibits:
        assert set(item.figures) <= set(QUANTITIES) and set(item.figures.values()) <= set(UNITS), item.name
        for row in item.rows:
            assert row.place.run in made and set(row.values) <= set(item.figures), (item.name, row)
            assert bool(item.over) == (row.x is not None), (item.name, row)
    for claim in report.claims:
        assert claim.figure in QUANTITIES and {place.run for place in claim.places} <= set(made), claim.text
        assert len(claim.places) > 1


def test_published_figures_are_found_by_place_and_name():
    report = published.read("cs744-vgg11-2317")
    assert report.find(published.Place("local"), "step") == (1.64, "s")  # stands at rank 0
    assert report.find(published.Place("gather-scatter", 2), "accuracy") == (12.39, "%")
    assert report.find(published.Place("local"), "bandwidth") is None
    mpi = published.read("mpi-mnist")
    assert mpi.find(published.Place("1x8"), "total") == (103.67, "s")


def test_an_unknown_report_or_figure_lists_what_there_is():
    with pytest.raises(InputError, match=r"unknown report 'mpi-mnst'. Did you mean mpi-mnist"):
        published.read("mpi-mnst")
    with pytest.raises(InputError, match=r"unknown table or figure of mpi-mnist 'Table 3'. Did you mean Table 2"):
        Reproduction(report="mpi-mnist", only=("Table 3",))
    with pytest.raises(InputError, match="--steps is 1: it must be 2 or more"):
        Reproduction(report="mpi-mnist", steps=1)


def test_only_some_figures_need_only_their_runs():
    asked = Reproduction(report="mpi-mnist", only=("GPU run",), **EVERYTHING)
    assert [config.device for config in asked.plan()] == ["cuda"]
    assert Reproduction(report="mpi-mnist", only=("GPU run",)).plan() == []


def test_without_data_or_nodes_the_same_runs_are_made_of_what_there_is():
    bare = Reproduction(report="cs744-vgg11-14", emulated=False)
    assert {config.data for config in bare.plan()} == {"synthetic"}
    assert not any(config.is_emulated for config in bare.plan())
