"""A published report again: its runs made here, its tables and figures beside ours, a verdict on what it claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.errors import InputError, unknown
from gradsync.exhibit import OURS, PUBLISHED, Column, Section, Table, Value
from gradsync.record import Run
from gradsync.study import published
from gradsync.study.beside import Comparison, value_of
from gradsync.study.carry_out import key
from gradsync.study.published import Claim, Exhibit, Place
from gradsync.study.quantities import QUANTITIES, UNITS, not_learnt, relative_error
from gradsync.study.reports import REPORTS, Asked, Scale
from gradsync.study.verdict import VERDICTS, Finding, judge
from gradsync.values import counted

CERTAIN = 2  # standard errors
MARKS = dict(zip(VERDICTS, "✓✗?–", strict=True))


@dataclass(kw_only=True)
class Reproduction:
    """All that decides which runs are made: with it, a report of them can be rebuilt from their folder."""

    report: str
    scale: Scale = "short"
    only: tuple[str, ...] = ()
    """These tables and figures."""

    real_data: tuple[str, ...] = ()
    emulated: bool = True
    gpu: bool = False
    steps: int | None = None

    name: ClassVar[str] = "reproduce"

    def __post_init__(self) -> None:
        self.published = published.read(self.report)
        self.only, self.real_data = tuple(self.only), tuple(self.real_data)
        if self.steps is not None and self.steps < 2:
            raise InputError(f"--steps is {self.steps}: it must be 2 or more, as the first step is not timed.")
        for name in self.only:
            if name not in self.published.names:
                raise unknown(f"table or figure of {self.report}", name, self.published.names)

    @property
    def title(self) -> str:
        return self.published.title

    @property
    def exhibits(self) -> list[Exhibit]:
        return [item for item in self.published.exhibits if not self.only or item.name in self.only]

    def cases(self) -> dict[str, RunConfig]:
        """Ours, by the names the published files know them by: those that the exhibits need and that can be made."""
        made = REPORTS[self.report].cases(
            Asked(self.scale, self.real_data, self.emulated, self.gpu, self.steps),
        )
        needed = {name for item in self.exhibits for row in item.rows for name in (row.place.run, row.against)}
        return {name: config for name, config in made.items() if name in needed}

    def plan(self) -> list[RunConfig]:
        """Each run once, also if several rows are about it."""
        return list({key(config.to_dict()): config for config in self.cases().values()}.values())

    def needs_own_processes(self, config: RunConfig) -> bool:
        return REPORTS[self.report].own_processes(config)

    def by_name(self, runs: Sequence[Run]) -> dict[str, Run]:
        found = {key(run.config): run for run in runs}
        keys = {name: key(config.to_dict()) for name, config in self.cases().items()}
        return {name: found[asked] for name, asked in keys.items() if asked in found}

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        ours = self.by_name(runs)
        extent = self.extent(ours)
        findings = self.findings(ours)
        claimed = [Section("What the report claims", [claims_table(findings, extent)])] if findings else []
        compared = [
            Section(
                f"{item.name}: {item.title}", Comparison(item, ours, [*filter(None, [item.note]), extent]).exhibits()
            )
            for item in self.exhibits
        ]
        return [*claimed, *compared, *REPORTS[self.report].more(ours)]

    def summary(self, runs: Sequence[Run]) -> list[str]:
        ours = self.by_name(runs)
        findings = self.findings(ours)
        counts = {verdict: sum(item.verdict == verdict for item in findings) for verdict in VERDICTS}
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        said = [f"Of {counted(len(findings), 'claim')} of the report: {told}."] if findings else []
        differing = [str(item) for item in findings if item.verdict == "not reproduced"]
        return [*said, *differing, self.extent(ours)]

    def findings(self, ours: dict[str, Run]) -> list[Finding]:
        """On the claims for which all runs were to be made."""
        asked = self.cases()
        return [
            self.finding(claim, ours)
            for claim in self.published.claims
            if all(place.run in asked for place in claim.places)
        ]

    def finding(self, claim: Claim, ours: dict[str, Run]) -> Finding:
        def our_value(place: Place) -> float | None:
            run = ours.get(place.run)
            return value_of(claim.figure, run, place.rank) if run else None

        def their_value(place: Place) -> float | None:
            found = self.published.find(place, claim.figure)
            return found[0] / UNITS[found[1]] if found else None

        runs = [ours[name] for name in dict.fromkeys(place.run for place in claim.places) if name in ours]
        cannot_tell = "scale smoke" if self.scale == "smoke" else doubt(claim, runs)
        spread = CERTAIN * sum(relative_error(run) ** 2 for run in runs) ** 0.5
        return judge(claim, our_value, their_value, cannot_tell, spread if len(runs) > 1 else 0.0)

    def extent(self, ours: dict[str, Run]) -> str:
        """How far this is from what the report did: it stands below every figure."""
        parts = [f"Scale {self.scale}"]
        if self.steps:
            parts.append(f"{self.steps} steps of each run")
        elif self.scale != "full":
            smoke = "a few steps or samples, to see that it runs"
            parts.append(REPORTS[self.report].short if self.scale == "short" else smoke)
        if any(run.config["data"] == "synthetic" and run.config["model"] != "alexnet" for run in ours.values()):
            parts.append("made-up data instead of the real set, so that losses and accuracies mean nothing")
        if not self.emulated and any(len((run.summary or {}).get("ranks", [])) > 1 for run in ours.values()):
            parts.append("no emulated nodes: all workers share this machine")
        failed = {name: run for name, run in ours.items() if run.status != "completed"}
        if failed:
            why = dict.fromkeys("out of memory" if run.out_of_memory else run.status for run in failed.values())
            parts.append(f"no figures of {', '.join(failed)}: {', '.join(why)}")
        return "; ".join(parts) + "."


def doubt(claim: Claim, runs: Sequence[Run]) -> str:
    """Why these runs tell nothing about how well is learnt, if so. To hold the same model, none need have learnt."""
    if not QUANTITIES[claim.figure].learnt or (claim.kind == "alike" and claim.within == 0):
        return ""
    return next(filter(None, map(not_learnt, runs)), "")


def claims_table(findings: Sequence[Finding], extent: str) -> Table:
    columns = [Column("claim"), Column("verdict"), Column(OURS), Column(PUBLISHED), Column("remark")]
    rows: list[list[Value]] = [
        [
            item.claim.text,
            f"{MARKS[item.verdict]} {item.verdict}",
            item.ours or None,
            item.published or None,
            item.reason,
        ]
        for item in findings
    ]
    notes = [
        "Ratios are of the last run named to the first, or of the largest to the smallest; points are of accuracy. "
        "Undecided: the difference is within noise, or runs of this kind do not show it.",
        extent,
    ]
    return Table("What the report claims, and what we find", columns, rows, notes)
