"""The collective benchmark: every operation on every size over every transport, and two numbers that predict them.

studies/probe/runs/<time>-probe-gloo-4w/    one start of the processes for each transport, and for each repeat
  config.json, resolved.json                the settings the launcher got
  probe.json                                what the ranks were asked to time
  rank-N.jsonl, logs/
  summary.json                              the points and the fits, written last
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import ClassVar

from gradsync import launch
from gradsync.config import Resolved
from gradsync.config.probe import ProbeConfig
from gradsync.exhibit import probe
from gradsync.exhibit.form import Section
from gradsync.figures.bandwidth import fits, points
from gradsync.launch.outcome import Outcome, explain
from gradsync.launch.processes import PROBER
from gradsync.ledger.summary import cluster
from gradsync.parent import signals_held
from gradsync.record import (
    PROBE_FILE,
    SCHEMA,
    SUMMARY_FILE,
    ProbeRun,
    ProbeSummary,
    RankRecord,
    create_folder,
    records_until_damage,
    write_json,
    write_settings,
)
from gradsync.record.summaries import Error
from gradsync.study.making.base import Planned, Study


@dataclass(kw_only=True)
class ProbeStudy(Study, ProbeConfig):
    """Time every operation on every size over every transport."""

    name: ClassVar[str] = "probe"
    title: ClassVar[str] = "Collective benchmark"

    def plan(self) -> list[ProbeConfig]:
        """One for each transport: each needs a start of its own."""
        asked = {item.name: getattr(self, item.name) for item in fields(ProbeConfig)}
        return [ProbeConfig(**asked | {"transport": (transport,)}) for transport in self.transport]

    def repeated(self, plan: Sequence[ProbeConfig]) -> list[ProbeConfig]:
        """There is no seed: all repeats are asked to do exactly the same."""
        return [asked for _ in range(self.repeat) for asked in plan]

    def start_of(self, planned: Planned) -> Hashable:
        return None

    def own_processes(self, asked: ProbeConfig) -> bool:
        return True

    def make(self, runs: Sequence[Planned], watch: launch.Watch) -> list[ProbeRun]:
        (planned,) = runs
        assert isinstance(planned.asked, ProbeConfig)
        return [measure(planned.asked, planned.ready, watch)]

    def sections(self, runs: Sequence[ProbeRun]) -> list[Section]:
        return probe.sections(runs)

    def doubts(self, runs: Sequence[ProbeRun]) -> list[str]:
        return probe.doubts(runs)


def measure(asked: ProbeConfig, ready: Resolved, watch: launch.Watch) -> ProbeRun:
    """A failure is recorded, not raised: the caller looks at the status."""
    folder = create_folder(Path(ready.out), f"probe-{ready.transport}-{ready.workers}w")
    write_settings(folder, ready)
    write_json(folder / PROBE_FILE, asked.to_dict())
    begin = time.time()
    outcome = launch.start(ready, [folder], PROBER, watch)
    with signals_held():
        ranks, damage = records_until_damage(folder, ready.processes)
        if damage and not (outcome.exit_codes or outcome.failure):
            outcome = replace(outcome, failure=damage)
        summary = summarize(ready, ranks, outcome, folder, time.time() - begin)
        write_json(folder / SUMMARY_FILE, summary.to_dict())
    return ProbeRun(folder, asked, summary)


def summarize(
    ready: Resolved, ranks: Sequence[RankRecord], outcome: Outcome, folder: Path, total_seconds: float
) -> ProbeSummary:
    """The whole of summary.json."""
    started = [record.start for record in ranks if record.start]
    transport = started[0]["backend"] if started else None
    found = points(transport or ready.transport, ranks)
    error = reason(outcome, ranks, folder, len(found))
    return ProbeSummary(
        schema=SCHEMA,
        status="failed" if error else "completed",
        error=error,
        world_size=ready.workers,
        nodes=len({row["node"] for row in started}),
        device=started[0]["device"] if started else None,
        threads=ready.threads,
        cluster=cluster(ready, ranks),
        transports=[transport or ready.transport],
        total_seconds=total_seconds,
        points=found,
        fits=fits(found),
    )


def reason(outcome: Outcome, ranks: Sequence[RankRecord], folder: Path, done: int) -> Error | None:
    error = explain(outcome, ranks, folder)
    if error and outcome.signal:
        error.message = f"stopped by {outcome.signal} after {done} points"
    return error
