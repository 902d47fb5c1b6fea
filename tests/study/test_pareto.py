"""Which strategies are Pareto-optimal, of runs with known times and accuracies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from exhibited import column, tables_of
from gradsync.exhibit.remarks import ONE_RUN_EACH
from gradsync.study.pareto import UNEQUAL, Pareto, frontier
from made_up import made_up

TABLE = "Strategies by accuracy, bytes and seconds"
points = st.dictionaries(st.integers(0, 20), st.tuples(*[st.integers(0, 3).map(float)] * 3), min_size=1)


@given(points=points)
def test_nothing_on_the_frontier_is_beaten_and_everything_else_is(points: dict[int, tuple[float, float, float]]):
    best = frontier(points)
    assert best

    def beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    for index, point in points.items():
        assert (index in best) == (not any(beats(other, point) for other in points.values()))


def test_strategies_that_nothing_beats(tmp_path: Path):
    study = Pareto(model="logistic", strategies=("local", "all-reduce", "ddp"), steps=5)
    times = {"local": (0.1, 0.0), "all-reduce": (0.1, 0.1), "ddp": (0.05, 0.01)}
    runs = [
        made_up(tmp_path, config, compute=times[config.strategy or ""][0], wire=times[config.strategy or ""][1])
        for config in study.plan()
    ]
    section = study.sections(runs)[0]
    assert column(tables_of([section])[TABLE], "Pareto-optimal") == [
        "yes",
        "",
        "yes",
    ]  # ddp is faster, local sends nothing
    assert section.sentences == [
        "At equal updates and samples (5 updates each), local × 1 and ddp × 2 are Pareto-optimal in accuracy, bytes "
        "and seconds.",
        ONE_RUN_EACH,
    ]


def test_what_is_pareto_optimal_only_by_chance_is_undecided(tmp_path: Path):
    study = Pareto(model="logistic", strategies=("all-reduce", "ddp", "ring"), steps=5)
    times = {"all-reduce": 0.1, "ddp": 0.101, "ring": 0.2}  # and the same bytes and accuracy
    runs = [made_up(tmp_path, config, compute=times[config.strategy or ""]) for config in study.plan()]
    (section,) = study.sections(runs)
    assert column(tables_of([section])[TABLE], "Pareto-optimal") == ["yes", "undecided", ""]
    assert section.sentences[1] == (
        "It is undecided whether ddp × 2 is Pareto-optimal: the differences that decide it are within the "
        "uncertainty."
    )
    runs[0] = made_up(tmp_path, study.plan()[0], compute=0.102, accuracy=0.501)  # more accurate by one sample
    runs[2] = made_up(tmp_path, study.plan()[2], compute=0.08, accuracy=0.5)
    (section,) = study.sections(runs)
    assert column(tables_of([section])[TABLE], "Pareto-optimal") == ["undecided", "", "yes"]


def test_pareto_says_what_is_equal_and_finds_no_frontier_where_nothing_is(tmp_path: Path):
    study = Pareto(model="logistic", strategies=("local", "ddp"), steps=4)
    local, ddp = study.plan()
    unequal = [made_up(tmp_path, local), made_up(tmp_path, replace(ddp, steps=6))]
    (section,) = study.sections(unequal)
    assert section.sentences == [UNEQUAL]
    assert set(column(tables_of([section])[TABLE], "Pareto-optimal")) == {""}
    same_samples = [made_up(tmp_path, replace(local, batch_size=32, steps=8)), made_up(tmp_path, ddp)]
    assert (
        study.sections(same_samples)[0]
        .sentences[0]
        .startswith(
            "At equal samples (256 samples each, in 4 to 8 updates), local × 1 and ddp × 2 are Pareto-optimal"
        )
    )
