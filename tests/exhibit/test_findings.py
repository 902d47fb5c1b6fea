"""What runs show, in sentences: what limits the result first, then the most important of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exhibited import HOST, steps_of, subjects, with_figures
from gradsync.config import RunConfig
from gradsync.exhibit.findings import findings
from gradsync.exhibit.runs.subjects import named
from gradsync.figures.cases import cases
from gradsync.record import Run
from gradsync.record.summaries import Error, StragglerFound
from made_up import made_up

ONE_RUN = (
    "One run each: ± covers only the variation within a run, and another run may differ by more. "
    "HINT: --repeat 3 measures by how much."
)


def two(out: Path, seconds: float = 0.8, spread: float = 0.0, **place: object) -> list[Run]:
    """One process with a second a step, and two workers."""
    runs = [steps_of(out, "local", 1, 1.0), steps_of(out, "ddp", 2, seconds)]
    return [with_figures(run, seconds_per_step_spread=spread, **place) for run in runs]


def test_speed_ups_come_with_their_uncertainty_and_say_what_it_is_of(tmp_path: Path):
    told = findings(subjects(two(tmp_path, spread=0.1)))
    assert told[0] == (
        "ddp has 1.25 ± 0.06× the throughput of one process, at 63% ± 3% of the ideal (0.80 ± 0.10 s a step)."
    )
    assert told[1] == ONE_RUN


def test_of_repeats_it_is_not_said_that_there_was_one_run_each(tmp_path: Path):
    runs = [
        steps_of(tmp_path, way, workers, seconds * pace, seed=seed)
        for seed, pace in enumerate((1.0, 1.1))
        for way, workers, seconds in (("local", 1, 1.0), ("ddp", 2, 0.8))
    ]
    told = findings(named(cases(runs)))
    assert told[0].startswith("ddp has 1.25 ± 0.12× the throughput of one process")
    assert ONE_RUN not in told


def test_the_fastest_is_first_and_the_others_follow_with_theirs(tmp_path: Path):
    paces = {"local": 1.0, "gather-scatter": 0.8, "all-reduce": 0.5, "ddp": 0.4}
    runs = [steps_of(tmp_path, way, 1 if way == "local" else 4, seconds) for way, seconds in paces.items()]
    assert findings(subjects(runs))[0] == (
        "ddp has 2.50× the throughput of one process, at 63% of the ideal (0.40 ± 0.00 s a step); all-reduce 2.00×, "
        "gather-scatter 1.25×."
    )


def test_an_efficiency_above_100_percent_beyond_its_uncertainty_is_the_first_finding(tmp_path: Path):
    crowded = two(tmp_path, seconds=0.3, spread=0.01, host=HOST, threads=4)  # and there are other doubts
    first, second, *_ = findings(subjects(crowded))
    assert first.startswith("ddp: an efficiency of")
    assert "is above 100% by more than the variation within a run. More workers cannot explain that: repeat" in first
    assert "compute threads share 2 cores" in second
    within = findings(subjects(two(tmp_path, seconds=0.49, spread=0.5)))
    assert not any("above 100%" in sentence for sentence in within)


def test_only_repeats_decide_that_an_efficiency_is_above_100_percent(tmp_path: Path):
    def made(*paces: float) -> list[str]:
        local = [steps_of(tmp_path, "local", 1, 1.0, seed=seed) for seed in range(len(paces))]
        ddp = [steps_of(tmp_path, "ddp", 2, 0.4 * pace, seed=seed) for seed, pace in enumerate(paces)]
        return findings(named(cases([*local, *ddp])))

    assert "is above 100% by more than its uncertainty. More workers cannot explain that: look" in made(1.0, 1.01)[0]
    assert not any("above 100%" in sentence for sentence in made(0.8, 1.2)), "one of them is below"


def test_more_busy_threads_than_cores_come_before_any_speed_up(tmp_path: Path):
    local, ddp = two(tmp_path, host=HOST)
    told = findings(subjects([with_figures(local, threads=1), with_figures(ddp, threads=2)]))
    assert told[0] == "ddp: 4 compute threads share 2 cores. This result is limited by the cores of the machine."
    assert told[1].startswith("ddp has 1.25")


def test_later_steps_that_differ_come_before_any_speed_up(tmp_path: Path):
    config = RunConfig(model="logistic", strategy="ddp", workers=2, batch_size=64, steps=60)
    runs = [steps_of(tmp_path, "local", 1, 1.0, steps=60), made_up(tmp_path, config, compute=0.8, later=2.0)]
    told = findings(subjects(runs))
    assert told[0].startswith("ddp: the 20 steps after the window (steps 2 to 40) take 100% longer")
    assert told[1].startswith("ddp has 1.25")


def test_where_one_process_had_all_cores_it_is_said_what_is_compared(tmp_path: Path):
    local, ddp = two(tmp_path, host=HOST)
    told = findings(subjects([with_figures(local, threads=2), with_figures(ddp, threads=1)]))
    assert (
        "One process computed with 2 threads, and each of 2 workers with 1 thread on the same machine: they have no "
        "more cores than it had, so the ideal speed-up is 1×, not 2×."
    ) in told
    four = with_figures(steps_of(tmp_path, "ddp", 4, 0.8), host=HOST, threads=1)
    told = findings(subjects([with_figures(local, threads=2), with_figures(ddp, threads=1), four]))
    assert any("each of 2 or 4 workers with 1 thread" in each and "is 1×, not 2× or 4×." in each for each in told)


def test_without_one_process_the_fastest_is_named_and_a_run_alone_is_not_the_fastest(tmp_path: Path):
    ddp, ring = steps_of(tmp_path, "ddp", 2, 0.8), steps_of(tmp_path, "ring", 2, 0.4)
    assert findings(subjects([ddp, ring]))[:2] == [
        "ring is the fastest: 0.40 ± 0.00 s a step, 160 samples per second.",
        ONE_RUN,
    ]
    assert findings(subjects([ddp]))[0] == "ddp: 0.80 ± 0.00 s a step, 80 samples per second."


def test_which_is_the_fastest_is_undecided_within_the_uncertainty(tmp_path: Path):
    ddp, ring, slow = (
        steps_of(tmp_path, "ddp", 2, 0.41),
        steps_of(tmp_path, "ring", 2, 0.4),
        steps_of(tmp_path, "none", 2, 0.8),
    )
    told = findings(subjects([ddp, ring, slow]))
    assert told[0] == (
        "It is undecided which is the fastest: ring takes 0.40 ± 0.00 s a step (160 samples per second), and ddp is "
        "within the uncertainty of that."
    )
    wide = [with_figures(run, seconds_per_step_spread=0.2) for run in (slow, ring)]  # of 11 steps
    assert findings(subjects(wide))[0].startswith("ring is the fastest")
    wider = [with_figures(run, seconds_per_step_spread=0.5) for run in (slow, ring)]
    assert findings(subjects(wider))[0].startswith("It is undecided which is the fastest")


def test_where_the_time_of_a_step_goes(tmp_path: Path):
    config = RunConfig(model="logistic", strategy="ddp", workers=2, steps=12)
    run = made_up(tmp_path, config, compute=0.4, wire=0.1)
    assert "A step of ddp is 80% forward and backward, 20% moving bytes." in findings(subjects([run]))
    hidden = with_figures(run, hidden_comm=0.05)
    assert (
        "A step of ddp is 80% forward and backward, 20% moving bytes; communication worth 10% of it is hidden behind "
        "computation."
    ) in findings(subjects([hidden]))


def test_uneven_bytes_and_stragglers_are_told(tmp_path: Path):
    run = steps_of(tmp_path, "gather-scatter", 4, 0.8)
    assert run.summary
    network = run.summary.ranks[0].network
    assert network
    first = replace(run.summary.ranks[0], network=replace(network, sent_bytes=3 * network.sent_bytes))
    late = StragglerFound(rank=2, late_steps=9, steps=10, seconds=0.05, cause="forward")
    told = findings(subjects([with_figures(run, ranks=[first, *run.summary.ranks[1:]], straggler=late)]))
    assert "gather-scatter: rank 0 sends 3.0× the average of the others." in told
    assert "gather-scatter: rank 2 arrives last in 9 of 10 steps, by 50 ms; cause: forward." in told


def repeats(out: Path, strategy: str, *paces: tuple[float, float]) -> list[Run]:
    """A run of each computation and wire, with a seed of its own."""
    asked = RunConfig(model="logistic", strategy=strategy, workers=4, batch_size=64, steps=12)
    return [
        made_up(out, replace(asked, seed=seed), compute=compute, wire=wire)
        for seed, (compute, wire) in enumerate(paces)
    ]


def test_findings_are_of_all_repeats_as_the_tables_are(tmp_path: Path):
    """The first of ddp is the fastest of all runs, and computes only."""
    runs = [*repeats(tmp_path, "ddp", (0.1, 0.0), (0.5, 0.5)), *repeats(tmp_path, "ring", (0.2, 0.0), (0.2, 0.0))]
    told = findings(named(cases(runs)))
    assert told[0] == (
        "It is undecided which is the fastest: ddp takes 0.55 ± 0.64 s a step (352 ± 407 samples per second), and "
        "ring is within the uncertainty of that."
    )
    assert ONE_RUN not in told
    assert "A step of ddp is 75% forward and backward, 25% moving bytes." in told
    steady = [*repeats(tmp_path, "ddp", (0.3, 0.0), (0.4, 0.0)), *repeats(tmp_path, "ring", (0.11, 0.0), (0.11, 0.0))]
    assert findings(named(cases(steady)))[0].startswith("ring is the fastest")


def test_stragglers_and_uneven_bytes_of_a_later_repeat_are_told(tmp_path: Path):
    first, second, third = repeats(tmp_path, "gather-scatter", (0.8, 0.0), (0.8, 0.0), (0.8, 0.0))
    late = StragglerFound(rank=2, late_steps=9, steps=10, seconds=0.05, cause="forward")
    assert second.summary
    network = second.summary.ranks[0].network
    assert network
    most = replace(second.summary.ranks[0], network=replace(network, sent_bytes=7 * network.sent_bytes))
    second = with_figures(second, straggler=late, ranks=[most, *second.summary.ranks[1:]])
    third = with_figures(third, straggler=late)
    told = findings(named(cases([first, second, third])))
    assert "gather-scatter, in 2 of 3 runs: rank 2 arrives last in 9 of 10 steps, by 50 ms; cause: forward." in told
    assert "gather-scatter: rank 0 sends 3.0× the average of the others." in told  # (1 + 7 + 1) / 3


@pytest.mark.parametrize(
    ("accuracies", "sentence"),
    [
        ([0.5], "ddp reaches 50.00% on the test set."),
        ([0.5, 0.5], "All 2 reach 50.00% on the test set."),
        ([0.8, 0.5], "Test accuracy lies between 50.00% (ring) and 80.00% (ddp)."),
        (
            [0.8, 0.79],  # of 1,000 samples
            "Test accuracy lies between 79.00% (ring) and 80.00% (ddp), a difference within the uncertainty.",
        ),
    ],
)
def test_what_they_reach(tmp_path: Path, accuracies: list[float], sentence: str):
    config = {way: RunConfig(model="logistic", strategy=way, workers=2, steps=12) for way in ("ddp", "ring")}
    runs = [made_up(tmp_path, config[way], accuracy=each) for way, each in zip(config, accuracies, strict=False)]
    assert sentence in findings(subjects(runs))


def test_runs_that_failed_or_have_not_ended_are_counted(tmp_path: Path):
    run = steps_of(tmp_path, "ddp", 2, 0.8)
    error = Error(rank=0, type="OSError", message="", traceback="", log=[])
    failed = with_figures(run, status="failed", error=error)
    told = findings(subjects([run, failed, replace(run, summary=None)]))
    assert "1 run failed: ddp (2). Figures up to that point are shown." in told
    assert "1 run unfinished: ddp (3). Figures up to that point are shown." in told
