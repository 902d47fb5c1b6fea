"""What differs between the workers of one run: servers' workers, and ranks with models of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exhibited import column, steps_of, subjects, tables_of, text, with_figures, with_own_models
from gradsync.exhibit.form import Chart
from gradsync.exhibit.runs.workers import is_stale, worker_sections
from gradsync.record import Run, summaries
from gradsync.record.summaries import Staleness

STALE = Staleness(histogram={"11": 1, "0": 12, "1": 6}, mean=0.9, max=11, dropped=1)
WAITING = Staleness(histogram={"0": 20}, mean=0.0, max=0, dropped=0)


def served(out: Path, staleness: Staleness | None = STALE, strategy: str = "ps-async") -> Run:
    """Two workers of a server, with seven epochs each."""
    run = steps_of(out, strategy, 2, 0.2)
    assert run.summary
    ranks = [
        replace(
            rank,
            finish_seconds=1.5 + number,
            steps=10 - number,
            staleness=0.5 * number,
            dropped=number,
            epochs=[
                summaries.TestOfEpoch(
                    epoch=epoch, update=None, loss=1.0, accuracy=0.5 + epoch / 100, correct=1, count=100
                )
                for epoch in range(1, 8)
            ],
        )
        for number, rank in enumerate(run.summary.ranks)
    ]
    return with_figures(run, options={"max-staleness": "12"}, updates=19, staleness=staleness, ranks=ranks)


def test_each_worker_with_its_last_epochs_and_the_histogram(tmp_path: Path):
    (section,) = worker_sections(subjects([served(tmp_path)]))
    (table,) = tables_of([section]).values()
    assert table.title == "ps-async (max-staleness 12), 2 workers: 19 updates of the parameters"
    assert table.texts()[1] == [
        "worker 1", "2.50", "9", "0.50", "1", "53.00%", "54.00%", "55.00%", "56.00%", "57.00%"
    ]  # fmt: skip
    shown = text(section)
    bars = {line.split()[0]: line for line in shown.splitlines() if "▇" in line}
    assert list(bars) == ["0", "1", "11"]
    assert bars["0"].count("▇") == 2 * bars["1"].count("▇")
    assert bars["11"].endswith("▇ 1")
    assert "In addition, 1 gradient was dropped." in shown


def test_runs_without_servers_have_no_such_table_and_waiting_ones_no_histogram(tmp_path: Path):
    assert worker_sections(subjects([with_figures(served(tmp_path), updates=None)])) == []
    waiting = served(tmp_path, WAITING, "ps-sync")
    assert waiting.summary and not is_stale(waiting.summary)
    (section,) = worker_sections(subjects([waiting]))
    assert "▇" not in text(section)
    assert not any(isinstance(item, Chart) for item in section.exhibits)


def test_beside_others_only_those_that_are_stale_are_shown_worker_by_worker(tmp_path: Path):
    both = [served(tmp_path, WAITING, "ps-sync"), served(tmp_path)]
    (section,) = worker_sections(subjects(both))
    (table,) = tables_of([section]).values()
    assert table.title.startswith("ps-async")


def test_ranks_with_models_of_their_own_have_a_line_each(tmp_path: Path):
    apart = with_own_models(steps_of(tmp_path, "none", 2, 0.5), 0.6, 0.8)
    alike = with_own_models(steps_of(tmp_path, "ddp", 2, 0.5), 0.6, 0.6)
    (section,) = worker_sections(subjects([alike, apart]))
    (table,) = tables_of([section]).values()
    assert column(table, "run") == ["none", "none"]
    assert column(table, "rank") == ["rank 0", "rank 1"]
    assert column(table, "accuracy") == [pytest.approx(0.6), pytest.approx(0.8)]
    assert [row[-1] for row in table.texts()] == ["60.00%", "80.00%"]
    assert section.sentences == ["Ranks end with different models, so each has an accuracy of its own."]
    assert worker_sections(subjects([alike])) == []
