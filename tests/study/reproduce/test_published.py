"""The published files: nothing of the reports is forgotten, and everything in them has a run of ours."""

from __future__ import annotations

import pytest

from gradsync.errors import InputError
from gradsync.figures.catalogue import find_figure
from gradsync.figures.figure import UNITS
from gradsync.study.reproduce import published
from gradsync.study.reproduce.reports import REPORTS, Available, Scale
from gradsync.study.reproduce.reproduction import Reproduction
from gradsync.study.reproduce.verdict import decide
from made_up import resolved

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
def test_every_table_and_find_figure_the_report_is_there(name: str):
    assert sorted(published.read(name).names) == sorted(HELD[name])


@pytest.mark.parametrize("scale", ["full", "short", "smoke"])
@pytest.mark.parametrize("name", published.NAMES)
def test_every_row_and_every_claim_has_a_run_of_ours(name: str, scale: Scale):
    report = published.read(name)
    made = REPORTS[name].cases(Available(scale, **EVERYTHING))
    assert set(Reproduction(report=name, scale=scale, **EVERYTHING).cases()) == set(made)
    for config in made.values():
        resolved(config)
    for item in report.exhibits:
        assert all(map(find_figure, item.figures)) and set(item.figures.values()) <= set(UNITS), item.name
        for row in item.rows:
            assert row.place.run in made and set(row.values) <= set(item.figures), (item.name, row)
            assert bool(item.over) == (row.x is not None), (item.name, row)
    for claim in report.claims:
        assert find_figure(claim.figure) and {place.run for place in claim.places} <= set(made), claim.text
        assert len(claim.places) > 1


def test_published_figures_are_found_by_place_and_name():
    report = published.read("cs744-vgg11-2317")
    assert report.value(published.RunRank("local"), "step") == (1.64, "s")  # stands at rank 0
    assert report.value(published.RunRank("gather-scatter", 2), "accuracy") == (12.39, "%")
    assert report.value(published.RunRank("local"), "bandwidth") is None
    servers = published.read("cs744-tensorflow")
    first = published.RunRank("async-3", 0)
    assert [servers.value(first, "received", table) for table in ("Table 3", "Table 4")] == [(20, "MB"), (29, "MB")]
    assert servers.value(published.RunRank("async-3", 2), "received", exactly=True) is None
    mpi = published.read("mpi-mnist")
    assert mpi.value(published.RunRank("1x8"), "total") == (103.67, "s")


# Where the report's own figures do not bear out what it says.
AGAINST_THEMSELVES = {
    "Node 1 receives almost thrice what node 2 sends (taken as what node 2 receives: the two are the same in "
    "Table 4).",
}


@pytest.mark.parametrize("name", published.NAMES)
def test_the_published_figures_bear_out_what_the_report_claims(name: str):
    report = published.read(name)
    for claim in report.claims:
        of_ranks = len({place.run for place in claim.places}) < len(claim.places)
        found = [report.value(place, claim.figure, claim.exhibit, exactly=of_ranks) for place in claim.places]
        values = [pair[0] / UNITS[pair[1]] for pair in found if pair]
        if len(values) == len(claim.places):
            verdict = decide(claim, values, noise=0.0)
            assert (verdict == "not reproduced") == (claim.text in AGAINST_THEMSELVES), claim.text


@pytest.mark.parametrize("scale", ["full", "short", "smoke"])
def test_only_the_report_that_scales_its_learning_rate_does(scale: Scale):
    for name, report in REPORTS.items():
        factors = {resolved(config).lr_factor for config in report.cases(Available(scale, ())).values()}
        assert (factors == {1.0}) == (name != "mpi-mnist"), name


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
