"""Runs turned into what is shown of them, and what is shown turned into text: for tests of figures and exhibits."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from gradsync.config import RunConfig
from gradsync.draw.terminal import draw
from gradsync.exhibit.form import Chart, Document, Exhibit, Section, Table
from gradsync.exhibit.runs.subjects import Subject, named
from gradsync.figures.cases import one_by_one
from gradsync.figures.value import Value
from gradsync.record import Run
from gradsync.record.summaries import ClusterShape, Test
from made_up import made_up

HOST = {"processor": "EPYC", "cores": 2, "memory_bytes": None, "device": None, "system": "Linux", "python": "3.11"}


def subjects(runs: Sequence[Run]) -> list[Subject]:
    """A subject for each run."""
    return named(one_by_one(runs))


def with_figures(run: Run, **changes: Any) -> Run:
    """The run with another summary."""
    assert run.summary
    return replace(run, summary=replace(run.summary, **changes))


def cluster_shape(cpus: float | None = None, bandwidth: str | None = None, nodes: int | None = None) -> ClusterShape:
    return ClusterShape(
        name=None, nodes=nodes, bandwidth=bandwidth, latency=None, cpus=cpus, memory=None, run_delay_percent={}
    )


def with_own_models(run: Run, *accuracies: float) -> Run:
    """Each rank has tested a model of its own on 1,000 samples."""
    assert run.summary
    tests = [Test(loss=1.0, accuracy=each, correct=round(1000 * each), count=1000) for each in accuracies]
    ranks = [replace(rank, test=test) for rank, test in zip(run.summary.ranks, tests, strict=True)]
    return with_figures(run, ranks=ranks, test=tests[0])


def steps_of(out: Path, strategy: str, workers: int, seconds: float, **settings: Any) -> Run:
    """Steps of that length, of 64 samples unless another batch is asked for."""
    batch = {} if "batch_per_worker" in settings else {"batch_size": 64}
    asked = {"model": "logistic", "steps": 12, **batch, **settings}
    return made_up(out, RunConfig(strategy=strategy, workers=workers, **asked), compute=seconds - 1e-4)


def text(what: Document | Section | Exhibit, width: int = 200, details: bool = True) -> str:
    """On a terminal that is so wide."""
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    draw(what, console, details=details)
    return console.file.getvalue()  # type: ignore[attr-defined]


def column(table: Table, name: str) -> list[Value]:
    index = [item.name for item in table.columns].index(name)
    return [row[index] for row in table.rows]


def written_row(table: Table, first: str) -> dict[str, str]:
    """The texts of the row that begins with this, by the names of their columns."""
    (found,) = [row for row in table.texts() if row[0] == first]
    return dict(zip((item.name for item in table.columns), found, strict=True))


def exhibits_of(sections: Sequence[Section]) -> list[Exhibit]:
    return [exhibit for section in sections for exhibit in section.exhibits]


def charts_of(sections: Sequence[Section]) -> dict[str, Chart]:
    return {item.title: item for item in exhibits_of(sections) if isinstance(item, Chart)}


def tables_of(sections: Sequence[Section]) -> dict[str, Table]:
    return {item.title: item for item in exhibits_of(sections) if isinstance(item, Table)}
