"""What studies plan, and what they make of runs with known times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exhibited import with_figures
from gradsync.errors import InputError
from gradsync.exhibit.form import Chart, Section, Table
from gradsync.exhibit.remarks import ONE_RUN_EACH
from gradsync.figures.consistency import flags
from gradsync.figures.fit_scaling import amdahl, gustafson
from gradsync.figures.value import Spread, Value
from gradsync.library.runs.check import facts_in, suit
from gradsync.library.runs.studies import checked
from gradsync.record import Run, summaries
from gradsync.study import (
    KINDS,
    STUDIES,
    Communication,
    LargeBatch,
    Pareto,
    Reproduction,
    Scaling,
    Sweep,
    SyncAsync,
    study_of,
)
from gradsync.study.making.base import Study
from made_up import made_up, resolved


def tables(sections: Sequence[Section]) -> list[Table]:
    return [item for section in sections for item in section.exhibits if isinstance(item, Table)]


def charts(sections: Sequence[Section]) -> list[Chart]:
    return [item for section in sections for item in section.exhibits if isinstance(item, Chart)]


def column(table: Table, name: str) -> list[Value]:
    index = [item.name for item in table.columns].index(name)
    return [row[index] for row in table.rows]


@pytest.mark.parametrize("kind", STUDIES.values(), ids=STUDIES)
def test_every_study_has_a_default_plan_whose_runs_go_together(kind: type):
    plan = suit(kind().plan())
    assert plan
    for config in plan:
        resolved(config)
    assert len({str(config) for config in plan}) == len(plan)


OUT_OF_MEMORY = {"rank": 0, "type": "ProcessDied", "message": "", "traceback": "", "log": [], "out_of_memory": True}


@given(serial=st.floats(0, 1), most=st.integers(3, 64))
def test_both_laws_find_the_share_they_were_made_with(serial: float, most: int):
    workers = list(range(1, most))
    fixed = amdahl(workers, [1 / (serial + (1 - serial) / n) for n in workers])
    grown = gustafson(workers, [max(n - serial * (n - 1), 1e-9) for n in workers])
    if most < 4:
        assert fixed is None and grown is None  # one point is no fit
    else:
        assert fixed and fixed.serial == pytest.approx(serial, abs=1e-6)
        assert grown and grown.serial == pytest.approx(serial, abs=1e-6)
        assert fixed.largest_error < 1e-5


def scaled(tmp_path: Path, study: Scaling) -> list[Section]:
    """A step takes 0.1 s plus what the share of 32 samples takes, and 0.1 s of messages for more than one worker."""
    runs = []
    for config in study.plan():
        came_to = resolved(config)
        share = came_to.batch_size / came_to.workers
        runs.append(made_up(tmp_path, config, compute=share / 32, wire=0.1 if came_to.workers > 1 else 0.0))
    return study.sections(runs)


def test_strong_and_weak_scaling(tmp_path: Path):
    strong, weak = scaled(tmp_path, Scaling(model="logistic", workers=(1, 2, 4), batch_per_worker=32, steps=5))
    assert column(tables([strong])[0], "batch size") == [128, 128, 128]
    assert column(tables([weak])[0], "batch size") == [32, 64, 128]
    assert column(tables([strong])[0], "speed-up") == [
        1.0,
        *(pytest.approx(4.0001 / (4 / n + 0.1001)) for n in (2, 4)),
    ]
    assert column(tables([weak])[0], "speed-up") == [1.0, *(pytest.approx(n * 1.0001 / 1.1001) for n in (2, 4))]
    assert column(tables([weak])[0], "communication") == [0.0, pytest.approx(100), pytest.approx(100)]  # ms
    series = {row["series"] for row in charts([strong])[0].rows}
    assert series == {"ddp", "ideal", "Amdahl (ddp)"}
    assert any("Gustafson" in sentence for sentence in weak.sentences)


def test_a_study_that_went_on_elsewhere_has_no_speed_up_against_the_first_place(tmp_path: Path):
    study = Scaling(model="logistic", workers=(1, 2), batch_size=64, steps=5, modes=("strong",))
    here, elsewhere = (made_up(tmp_path, config) for config in study.plan())
    assert elsewhere.summary
    elsewhere.summary.host = {"processor": "another", "cores": 64, "device": None}
    assert column(tables(study.sections([here, elsewhere]))[0], "speed-up") == [None, None]
    shared = Communication(model="logistic", workers=(2,), batch_sizes=(32,), steps=5)
    alone, two = (made_up(tmp_path, config, wire=0.01) for config in shared.plan())
    assert column(tables(shared.sections([alone, two]))[0], "compute by subtraction") != [None]
    two.summary.host = elsewhere.summary.host  # type: ignore[index]
    assert column(tables(shared.sections([alone, two]))[0], "compute by subtraction") == [None]


def test_a_grid_of_nodes_and_processes_begins_with_one_worker():
    plan = Scaling(modes=("weak",), node_counts=(1, 2), per_node=(2,)).plan()
    assert [(config.strategy, config.nodes, config.workers_per_node, config.workers) for config in plan] == [
        ("local", 1, 1, 1),
        ("ddp", 1, 2, 2),
        ("ddp", 2, 2, 4),
    ]
    with pytest.raises(InputError, match="make the grid"):
        Scaling(node_counts=(1, 2), workers=(2,))


def test_communication_by_ledger_and_by_subtraction(tmp_path: Path):
    """Ten steps alone; five of each of two workers, in which cores are shared: computing takes longer."""
    study = Communication(model="logistic", workers=(2,), batch_sizes=(32,), epochs=2)
    alone, shared = study.plan()
    runs = [
        made_up(tmp_path, alone, compute=0.1, steps_per_epoch=10),
        made_up(tmp_path, shared, compute=0.15, wire=0.05, steps_per_epoch=5),
    ]
    times, bandwidths = tables(study.sections(runs))
    assert column(times, "compute") == [pytest.approx(0.75)]
    assert column(times, "communication") == [pytest.approx(0.25)]
    assert column(times, "compute by subtraction") == [pytest.approx(0.5005)]
    assert column(times, "communication by subtraction") == [pytest.approx(0.5)]
    assert column(bandwidths, "bytes by formula") == [pytest.approx(0.02)]  # 4,000 bytes × 5 steps
    assert column(bandwidths, "bandwidth used") == [pytest.approx(20_000 / 0.25 / 1e9)]
    assert column(bandwidths, "flags") == [""]


def test_computing_and_communicating_over_repeats_have_their_deviation(tmp_path: Path):
    study = Communication(model="logistic", workers=(2,), batch_sizes=(32,), epochs=2, repeat=2)
    alone, shared, again, shared_again = study.repeated(study.plan())
    runs = [
        made_up(tmp_path, alone, compute=0.1),
        made_up(tmp_path, again, compute=0.1),
        made_up(tmp_path, shared, compute=0.1, wire=0.1, steps_per_epoch=5),
        made_up(tmp_path, shared_again, compute=0.1, wire=0.3, steps_per_epoch=5),
    ]
    section = study.sections(runs)[0]
    times, bandwidths = tables([section])
    spread = pytest.approx(0.5 * 2**0.5)
    for name, mean in {"epoch": 1.5005, "communication": 1.0, "communication by subtraction": 1.0}.items():
        assert column(times, name) == [Spread(pytest.approx(mean), spread)], name
    assert "± 0.71" in times.texts()[0][3]
    (used,) = column(bandwidths, "bandwidth used")
    assert isinstance(used, Spread)
    assert times.notes[0] == "±: standard deviation over 2 runs with different seeds."
    assert "communicates 62% ± 18% of the time; by subtraction it would be" in section.sentences[0]


def test_figures_that_cannot_be_are_flagged():
    assert flags(100.0, 100.0, 101.0, 4.0, 50.0, 5.0) == []
    assert "+50% off the closed form" in flags(100.0, 100.0, 150.0, 4.0, None, 5.0)[0]
    assert flags(100.0, 150.0, 150.0, 4.0, None, 5.0) == []  # a strategy that sends more, and says so
    assert flags(100.0, None, 150.0, 4.0, None, 5.0) == []  # one that does not say what it sends
    assert "impossible by the ledger: more bytes" in flags(100.0, 100.0, 100.0, 1.0, 50.0, 5.0)[0]
    assert "impossible by subtraction: more bytes" in flags(100.0, 100.0, 100.0, 4.0, 50.0, 1.0)[0]
    assert "no time is left" in flags(100.0, 100.0, 100.0, 4.0, None, -1.0)[0]
    assert flags(100.0, 100.0, 100.0, 4.0, 50.0, None) == []  # nobody to subtract


def test_bytes_that_a_strategy_of_ones_own_has_not_declared_are_flagged(tmp_path: Path):
    """Its runs have recorded their own closed form: it need not have a name that the study knows."""
    study = Communication(model="logistic", workers=(2,), batch_sizes=(32,), strategies=("mine.py:Mine",), epochs=1)
    alone, shared = (made_up(tmp_path, asked, compute=0.1, wire=0.1) for asked in study.plan())
    assert shared.summary
    ranks = shared.summary.ranks
    more = [replace(rank, network=replace(rank.network, sent_bytes=3 * rank.network.sent_bytes)) for rank in ranks]  # type: ignore[type-var, union-attr]
    for found, told in ((ranks, ""), (more, "counted bytes are +200% off the closed form")):
        runs = [alone, replace(shared, summary=replace(shared.summary, ranks=found))]
        assert column(tables(study.sections(runs))[1], "flags") == [told]


def test_remedies_scale_the_learning_rate_with_the_batch(tmp_path: Path):
    study = LargeBatch(
        model="logistic", batch_sizes=(32, 128), lr=0.1, epochs=2, remedies=("none", "scaling", "lars")
    )
    plan = study.plan()
    assert [(config.batch_size, config.optimizer, config.lr, config.warmup_epochs) for config in plan] == [
        (32, None, 0.1, 0.0),
        (128, None, 0.1, 0.0),
        (128, "sgd", 0.4, 0.5),
        (128, "lars", 4.0, 0.5),
    ]
    reached = (0.9, 0.6, 0.85, 0.7)
    runs = [made_up(tmp_path, config, accuracy=share) for config, share in zip(plan, reached, strict=True)]
    section = study.sections(runs)[0]
    assert column(tables([section])[0], "remedy") == ["none", "none", "scaling", "lars"]
    assert column(tables([section])[0], "accuracy") == list(reached)
    assert "85.00%: +25.0 ± 1.9 points." in section.sentences[1]  # of 1,000 test samples
    assert section.sentences[-1] == ONE_RUN_EACH
    near = [
        made_up(tmp_path, config, accuracy=share) for config, share in zip(plan, (0.9, 0.6, 0.61, 0.7), strict=True)
    ]
    assert "+1.0 ± 2.2 points, a difference within the uncertainty." in study.sections(near)[0].sentences[1]


def test_synchronous_against_asynchronous(tmp_path: Path):
    study = SyncAsync(workers=(2,), batch_sizes=(50,), steps=10)
    runs = [
        made_up(tmp_path, config, compute=seconds, accuracy=share, sent=1000)
        for config, seconds, share in zip(study.plan(), (0.2, 0.1), (0.88, 0.9), strict=True)
    ]
    section = study.sections(runs)[0]
    assert column(tables([section])[0], "accuracy") == [0.88, 0.9]
    assert column(tables([section])[0], "sent") == [pytest.approx(0.02), pytest.approx(0.02)]
    assert len(column(tables([section])[1], "finished")) == 4
    assert section.sentences == [
        "2 workers, batches of 50: asynchronous training takes 0.50 of the time of synchronous training and reaches "
        "90.00% against 88.00%.",
        ONE_RUN_EACH,
    ]
    runs[1] = made_up(tmp_path, study.plan()[1], compute=0.196, accuracy=0.885)
    assert study.sections(runs)[0].sentences[0] == (
        "2 workers, batches of 50: asynchronous training takes 0.98 of the time of synchronous training, a "
        "difference within the uncertainty, and reaches 88.50% against 88.00%, a difference within the uncertainty."
    )


def test_servers_of_ones_own_are_compared_too_and_a_strategy_without_servers_is_refused(tmp_path: Path):
    (tmp_path / "mine.py").write_text("from gradsync.strategies.server.ps_sync import PsSync as Mine")
    mine = f"{tmp_path}/mine.py:Mine"
    study = SyncAsync(strategies=("ps-sync", mine, "ps-async"), workers=(2,), batch_sizes=(50,), steps=10)
    study.check_facts(facts_in(study.plan()))
    (section,) = study.sections([made_up(tmp_path, config) for config in study.plan()])
    *told, last = section.sentences
    assert [text.split(" takes")[0] for text in told] == [
        "2 workers, batches of 50: asynchronous training with ps-async"
    ] * 2
    assert "of synchronous training with ps-sync" in told[0] and last == ONE_RUN_EACH
    assert f"of synchronous training with {mine}" in told[1]
    with pytest.raises(
        InputError, match="--strategies has ddp: this study is about strategies with parameter servers"
    ):
        checked(SyncAsync(strategies=("ps-sync", "ddp")))


def test_a_sweep_is_all_combinations_in_the_types_of_the_settings(tmp_path: Path):
    study = Sweep(vary=("lr=0.01,0.1", "augment=true,false"))
    plan = study.plan()
    assert [(config.lr, config.augment) for config in plan] == [
        (0.01, True),
        (0.01, False),
        (0.1, True),
        (0.1, False),
    ]
    runs = [made_up(tmp_path, config, accuracy=0.5 + (config.lr or 0)) for config in plan]
    section = study.sections(runs)[0]
    assert column(tables([section])[0], "augment") == ["true", "false", "true", "false"]
    assert "60.00%, with lr 0.1" in section.sentences[0] and section.sentences[1] == ONE_RUN_EACH
    assert [chart.x.log for chart in charts([section])] == [True, True]


def test_the_best_of_a_sweep_is_undecided_where_chance_may_have_made_it(tmp_path: Path):
    """Of a metric whose spread one run does not show, values as near as any figure's noise count as the same."""
    study = Sweep(vary=("lr=0.01,0.1",))
    runs = [made_up(tmp_path, config) for config in study.plan()]

    def told(*errors: float) -> list[str]:
        tests = [summaries.Test(loss=1.0, count=100, metrics={"rmse": each}) for each in errors]
        made = [with_figures(run, test=test, metrics=["rmse"]) for run, test in zip(runs, tests, strict=True)]
        return list(study.sections(made)[0].sentences)

    near, far = told(0.5, 0.51), told(0.5, 0.9)
    assert near[0] == "The best rmse is 0.500, with lr 0.01; 0.510 with lr 0.1 is within its uncertainty."
    assert far[0] == "The best rmse is 0.500, with lr 0.01."
    assert near[1:] == far[1:] == [ONE_RUN_EACH]


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        (("lr",), "must be a setting and its values"),
        (("lrr=1",), "unknown setting 'lrr'. Did you mean lr"),
        (("lr=fast",), "'fast' is not a valid value"),
        (("schedule=cosine,foo",), "'foo' is not a valid value"),
        ((), "--vary is empty"),
    ],
)
def test_a_sweep_over_what_there_is_not(vary: tuple[str, ...], message: str):
    with pytest.raises(InputError, match=message):
        Sweep(vary=vary)


def test_a_study_without_a_plan_or_sections_cannot_be_made():
    class Unfinished(Study):
        name = "unfinished"

    with pytest.raises(TypeError, match="abstract"):
        Unfinished()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_study_is_made_again_from_its_settings(kind: type[Study]):
    study = kind(repeat=3, **({"report": "mpi-mnist"} if kind is Reproduction else {}))
    again = study_of({"study": study.name, "settings": json.loads(json.dumps(study.to_dict()))})
    assert again == study
    assert not {"out", "folder"} & set(study.to_dict()), "a study can be moved"


def test_failed_runs_are_told_not_counted(tmp_path: Path):
    error = OUT_OF_MEMORY | {"out_of_memory": False}
    for study in (
        Scaling(workers=(1, 2), steps=3),
        Pareto(steps=3),
        Sweep(steps=3),
        LargeBatch(),
        SyncAsync(steps=3),
    ):
        runs: list[Run] = [made_up(tmp_path, config, error=error) for config in study.plan()]
        shown = tables(study.sections(runs))[0]
        assert set(column(shown, "remark")) == {"failed"}
        assert not charts(study.sections(runs))
    assert Communication().sections([]) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind is not Reproduction])
def test_a_study_without_runs_yet_shows_nothing(kind: type[Study]):
    for section in kind().sections([]):
        assert not charts([section]) and not any(table.rows for table in tables([section]))
