"""What a reader must know before believing the figures: threads, cores, later steps, lost workers, failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exhibited import HOST, cluster_shape, steps_of, subjects, with_figures
from gradsync.config import RunConfig
from gradsync.exhibit.findings import findings
from gradsync.exhibit.remarks import DISTURBED, doubts, failure, failures
from gradsync.exhibit.runs.subjects import named
from gradsync.figures.cases import cases
from gradsync.record import Run, log_file
from gradsync.record.summaries import Error, LostWorker
from made_up import made_up


def error(**changes: Any) -> Error:
    return Error(**{"rank": 1, "type": "OSError", "message": "no space", "traceback": "", "log": [], **changes})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return steps_of(tmp_path, "ddp", 4, 0.5)


@pytest.mark.parametrize("cluster", [None, cluster_shape()])
def test_more_busy_threads_than_cores_are_told_with_and_without_emulated_nodes(run: Run, cluster: Any):
    crowded = with_figures(run, host=HOST, threads=1, cluster=cluster)
    assert doubts(subjects([crowded])) == [
        "ddp: 4 compute threads share 2 cores. This result is limited by the cores of the machine."
    ]
    assert doubts(subjects([with_figures(crowded, host={**HOST, "cores": 4})])) == []
    assert doubts(subjects([with_figures(crowded, device="cuda:0")])) == []


def test_nodes_whose_shares_fit_on_the_cores_are_not_crowded(run: Run):
    nodes = with_figures(run, host=HOST, threads=1, nodes=4, cluster=cluster_shape(0.5))
    assert doubts(subjects([nodes])) == []
    assert doubts(subjects([with_figures(nodes, cluster=cluster_shape(0.75))])) != []


def test_runs_that_share_this_doubt_share_its_sentence(tmp_path: Path):
    runs = [with_figures(steps_of(tmp_path, way, 4, 0.5), host=HOST, threads=1) for way in ("ddp", "ring")]
    (told,) = doubts(subjects(runs))
    assert told.startswith("ddp, ring: 4 compute threads share 2 cores.")


def test_nodes_that_wanted_cores_the_host_did_not_have_are_told(run: Run):
    short = replace(cluster_shape(0.5), run_delay_percent={"node2": 31.0, "node1": 9.0})
    (told,) = doubts(subjects([with_figures(run, cluster=short)]))
    assert told == (
        "ddp: runnable but not scheduled for lack of a core: node2 31% of the time. This result is limited by the "
        "host's cores, not by the network alone."
    )


def test_runs_that_others_kept_from_the_cores_are_told_first(tmp_path: Path):
    lacked = {"ddp": 77.4, "ring": 40.0, "all-reduce": 100 * DISTURBED - 1}
    runs = []
    for way, share in lacked.items():
        made = with_figures(steps_of(tmp_path, way, 2, 0.5), host=HOST, threads=1)
        assert made.summary
        runs.append(with_figures(made, ranks=[replace(r, run_delay_percent=share) for r in made.summary.ranks]))
    assert doubts(subjects(runs)) == [
        "Runnable but not scheduled, as other processes had the cores: ddp 77%, ring 40% of the time. "
        "HINT: measure again with nothing else running."
    ]
    assert findings(subjects(runs))[0] == doubts(subjects(runs))[0]
    crowded = [with_figures(run, host={**HOST, "cores": 1}) for run in runs]  # then it is their own doing
    assert not any("other processes" in told for told in doubts(subjects(crowded)))


@pytest.mark.parametrize(("later", "words"), [(1.5, "take 50% longer"), (0.8, "take 20% less"), (1.0, None)])
def test_later_steps_that_differ_from_the_window_are_told(tmp_path: Path, later: float, words: str | None):
    config = RunConfig(model="logistic", strategy="ddp", workers=2, steps=60)
    told = doubts(subjects([made_up(tmp_path, config, later=later)]))
    if words is None:
        assert told == []
    else:
        assert told == [
            f"ddp: the 20 steps after the window (steps 2 to 40) {words}, which is beyond the spread within it. "
            "HINT: --window all, or last:100."
        ]


def test_a_difference_within_the_spread_and_a_few_later_steps_are_not_told(tmp_path: Path):
    config = RunConfig(model="logistic", strategy="ddp", workers=2, steps=60)
    slower = made_up(tmp_path, config, later=1.5)
    assert doubts(subjects([with_figures(slower, seconds_per_step_spread=0.06)])) == []
    assert doubts(subjects([made_up(tmp_path, replace(config, steps=44), later=1.5)])) == []


def test_lost_workers_and_a_lost_server_are_told_apart(run: Run):
    lost = [LostWorker(rank=1, steps=4, message="the process was killed by SIGKILL")]
    assert doubts(subjects([with_figures(run, lost=lost)])) == [
        "ddp: worker 1 was lost after 4 steps (the process was killed by SIGKILL); the others continued."
    ]
    assert run.summary
    server = replace(run.summary.ranks[0], rank=4, role="server")
    gone = with_figures(
        run, status="failed", error=error(rank=4, type="ProcessDied", message="gone"), servers=[server]
    )
    assert failure(gone) == f"{run.folder}: failed on rank 4, a parameter server: ProcessDied: gone."


def test_of_many_runs_it_is_said_how_many_they_are(tmp_path: Path):
    """A study may have hundreds: each kind of doubt is one sentence."""
    config = RunConfig(model="logistic", strategy="ddp", workers=4, steps=60)
    runs = []
    for number in range(6):
        made = made_up(tmp_path, replace(config, seed=number, lr=0.1 + number), later=1.5 + number)
        short = replace(cluster_shape(0.5 if number else 1.0), run_delay_percent={"node1": 20.0 + number})
        runs.append(with_figures(made, host=HOST, threads=1, cluster=short, nodes=4))
    assert doubts(subjects(runs)) == [
        "ddp, learning rate 0.1: 4 compute threads share 2 cores. This result is limited by the cores of the "
        "machine.",
        "Runnable but not scheduled for lack of a core: all 6 runs, 20% to 25% of the time. This result is limited "
        "by the host's cores, not by the network alone.",
        "The steps after the window take longer or less than those in it, by more than the spread within it: "
        "all 6 runs, +50% to +550%. HINT: --window all, or last:100.",
    ]
    few = doubts(subjects(runs[:2]))
    assert "a core: ddp, learning rate 0.1: 20%; ddp, learning rate 1.1: 21% of the time" in few[1]
    assert "within it: ddp, learning rate 0.1: +50%; ddp, learning rate 1.1: +150%. HINT" in few[2]
    crowded = [with_figures(run, cluster=None) for run in runs]
    assert doubts(subjects(crowded))[0].startswith("All 6 runs: 4 compute threads share 2 cores.")
    some = [*crowded[:5], with_figures(runs[5], cluster=None, threads=None)]
    assert doubts(subjects(some))[0].startswith("5 of 6 runs: 4 compute threads share 2 cores.")


def test_the_worst_of_repeats_counts(tmp_path: Path):
    made = [with_figures(steps_of(tmp_path, "ddp", 2, 0.5, seed=seed), host=HOST, threads=1) for seed in range(2)]
    second = made[1].summary
    assert second
    made[1] = with_figures(made[1], ranks=[replace(rank, run_delay_percent=60.0) for rank in second.ranks])
    (told,) = doubts(named(cases(made)))
    assert "had the cores: ddp 60% of the time" in told


def test_a_failure_is_one_line_with_the_file_that_has_the_rest(run: Run):
    failed = with_figures(run, status="failed", error=error(message="no space.", traceback="Traceback\n  x\n"))
    assert failure(failed) == f"{run.folder}: failed on rank 1: OSError: no space."
    log = log_file(run.folder, 1, "err")
    log.parent.mkdir()
    log.write_text("")
    assert "Its log" not in failure(failed), "there is nothing in it"
    log.write_text("much")
    assert failure(failed) == f"{run.folder}: failed on rank 1: OSError: no space. Its log: {log}"


def test_an_unfinished_run_is_told_and_a_completed_one_is_not(run: Run):
    cut = replace(run, summary=None)
    assert failures([run, cut]) == [
        f"{run.folder}: unfinished: it is still running, or was killed before it could write its summary."
    ]
