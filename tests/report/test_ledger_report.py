"""Ledger tables and bars from summaries, without processes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from gradsync.config import RunConfig
from gradsync.meter.ledger import HIDDEN, PARTS
from gradsync.record import Run, read_run, write_json
from gradsync.report.ledger import BAR, by_rank, by_strategy, cells
from made_up import made_up


def rank(number: int, ledger: dict, hidden_comm: float) -> dict:
    network = {
        "sent_bytes": 42e6,
        "received_bytes": 41e6,
        "steps": 10,
        "source": "sockets",
        "closed_form": {"sent_bytes": 40e6, "received_bytes": 40e6},
        "overhead_percent": 3.75,
    }
    return {
        "rank": number,
        "steps": 10,
        "ledger": ledger,
        HIDDEN: hidden_comm,
        "network": network,
        "payload": {"sent_bytes": 40e6},
        "cpu_percent": 93.0,
        "run_delay_percent": 31.0,
        "peak_memory_bytes": 512e6,
    }


def run(strategy: str, straggler: dict | None = None, hidden_comm: float = 0.0, **parts: float) -> Run:
    ledger = dict.fromkeys(PARTS, 0.0) | parts
    ranks = [rank(number, ledger, hidden_comm) for number in (0, 1)]
    summary = {"status": "completed", "strategy": strategy, "world_size": 2, "model": "vgg11"}
    summary |= {"ledger": ledger, HIDDEN: hidden_comm}
    return Run(Path("x"), {}, summary | {"ranks": ranks, "straggler": straggler})


def shown(item: object, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(item)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


RUNS = [
    run("local", forward=0.3, backward=0.6),
    run("gather-scatter", forward=0.15, backward=0.3, wait=0.05, wire=0.1, hidden_comm=0.02),
]


def test_a_line_and_a_bar_per_strategy_in_80_columns():
    lines = shown(by_strategy(RUNS))
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    figures = next(line for line in lines if "gather-scatter" in line).split()
    assert figures == ["gather-scatter", "0.00", "0.00", "150", "300", "50.0", "100", "0.00", "0.00", "600", "20.0"]
    local, gathered = (line.split()[1] for line in lines if "ff" in line)
    assert local == "f" * 20 + "b" * 40
    assert gathered == "f" * 10 + "b" * 20 + "-" * 3 + "~" * 7
    network = next(line for line in lines if "gather-scatter · 0" in line or "gather-scatter ·" in line)
    assert (
        network.split()[-9:]
        == ["4.000", "4.200", "4.100", "4.000", "+3.8", "%", "93", "%", "31", "%", "512", "MB"][-9:]
    )


def test_a_rank_each_and_the_one_that_is_late():
    late = {"rank": 1, "late_steps": 38, "steps": 40, "seconds": 0.201, "cause": "data"}
    text = "\n".join(shown(by_rank(run("ddp", late, data=0.2, forward=0.1).summary)))
    assert "ddp, 2 workers: where the time" in text
    assert "rank 1 arrives last in 38 of 40 steps, by 201 ms; cause: data." in text
    assert text.count("rank 0") == 3


def test_a_summary_that_has_hidden_comm_inside_the_ledger_is_shown_alike(tmp_path: Path):
    config = RunConfig(model="logistic", strategy="all-reduce", workers=2, steps=6)
    new = made_up(tmp_path, config, wire=0.01)
    old = json.loads((new.folder / "summary.json").read_text()) | {"schema": 2}
    for figures in (old, *old["ranks"]):
        figures["ledger"][HIDDEN] = figures.pop(HIDDEN)
        for added in ("epochs", "lost", "servers", "train_accuracy", "host", "cluster", "updates"):
            figures.pop(added, None)
    write_json(new.folder / "summary.json", old)
    assert shown(by_strategy([RUNS[0], read_run(new.folder)])) == shown(by_strategy([RUNS[0], new]))


def test_a_bar_is_never_longer_than_its_place_whatever_the_parts():
    odd = run("odd", forward=1e12, backward=-1e12, data=1e-3)
    assert max(map(len, shown(by_strategy([RUNS[0], odd]), width=100))) <= 100


def test_runs_that_were_not_measured_have_no_table():
    config = {"strategy": "ddp", "workers": 2}
    assert by_strategy([Run(Path("x"), config, None), Run(Path("x"), config, {"strategy": "ddp"})]) is None


@pytest.mark.parametrize("lengths", [[0.4] * 8, [10.0, 0.5, 20.5, 29.0], [0.0], [59.6, 0.4]])
def test_rounding_does_not_lengthen_the_bar(lengths: list[float]):
    assert sum(cells(lengths)) == round(sum(lengths)) <= BAR
