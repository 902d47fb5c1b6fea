"""A published report again: its runs made here, its tables and figures beside ours, a verdict on what it claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.errors import InputError, unknown
from gradsync.exhibit import OURS, PUBLISHED, Column, Section, Table, Value
from gradsync.record import Run
from gradsync.study import published
from gradsync.study.beside import Comparison, value_of
from gradsync.study.carry_out import key
from gradsync.study.published import Claim, Exhibit, Place
from gradsync.study.quantities import (
    QUANTITIES,
    UNITS,
    accuracy_error,
    not_learnt,
    relative_error,
    timed_steps,
)
from gradsync.study.reports import REPORTS, Asked, Scale
from gradsync.study.verdict import VERDICTS, Finding, is_share, judge
from gradsync.values import check_values, counted

CERTAIN = 2  # standard errors
FEWEST_TIMED = 3  # steps, to say anything about their time
SMALLEST_ACCURACY = 0.01
MARKS = dict(zip(VERDICTS, "✓✗?–", strict=True))


@dataclass(kw_only=True)
class Reproduction:
    """All that decides which runs are made: with it, a report of them can be rebuilt from their folder."""

    report: str = ""
    scale: Scale = "short"
    only: tuple[str, ...] = ()
    """These tables and figures."""

    real_data: tuple[str, ...] = ()
    emulated: bool = True
    gpu: bool = False
    steps: int | None = None

    name: ClassVar[str] = "reproduce"

    def __post_init__(self) -> None:
        check_values(self)
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
        if self.gpu:  # the reports computed on CPUs, but for that run
            made = {name: config if name == "gpu" else replace(config, device="cpu") for name, config in made.items()}
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
        return [*said, *differing, self.extent(ours), f"Published: {self.published.setup}."]

    def findings(self, ours: dict[str, Run]) -> list[Finding]:
        """On the claims about the runs of the exhibits that were asked for."""
        asked = {row.place.run for item in self.exhibits for row in item.rows}
        return [
            self.finding(claim, ours)
            for claim in self.published.claims
            if all(place.run in asked for place in claim.places)
        ]

    def finding(self, claim: Claim, ours: dict[str, Run]) -> Finding:
        def our_value(place: Place) -> float | None:
            run = ours.get(place.run)
            return value_of(claim.figure, run, place.rank) if run else None

        runs_named = [place.run for place in claim.places]
        of_ranks = len(set(runs_named)) < len(runs_named)  # then another rank's figure is no substitute

        def their_value(place: Place) -> float | None:
            found = self.published.find(place, claim.figure, claim.exhibit, exactly=of_ranks)
            return found[0] / UNITS[found[1]] if found else None

        runs = [ours[name] for name in dict.fromkeys(runs_named) if name in ours]
        return judge(claim, our_value, their_value, self.doubt(claim, runs), noise(claim, runs))

    def doubt(self, claim: Claim, runs: Sequence[Run]) -> str:
        """Why runs of this kind tell nothing about a claim, if so."""
        quantity = QUANTITIES[claim.figure]
        if self.scale == "smoke":
            return "scale smoke"
        if not self.gpu and any(place.run == "gpu" for place in claim.places):
            return "no GPU here"
        if quantity.learnt and not (
            claim.kind == "alike" and claim.within == 0
        ):  # to be equal, none need have learnt
            return next(filter(None, map(not_learnt, runs)), "")
        if quantity.of_run and self.steps:
            return f"all runs are {self.steps} steps long"
        if claim.figure == "total" and self.scale != "full":
            return "at this scale mostly the start of the processes"
        fewest = min(map(timed_steps, runs), default=0)
        if quantity.of_steps and fewest < FEWEST_TIMED:
            return f"{counted(fewest, 'step')} timed"
        return ""

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
        if not self.gpu and any(row.place.run == "gpu" for item in self.exhibits for row in item.rows):
            parts.append("no GPU here for the GPU run")
        failed = {name: run for name, run in ours.items() if run.status != "completed"}
        if failed:
            why = dict.fromkeys("out of memory" if run.out_of_memory else run.status for run in failed.values())
            parts.append(f"no figures of {', '.join(failed)}: {', '.join(why)}")
        return "; ".join(parts) + "."


def noise(claim: Claim, runs: Sequence[Run]) -> float:
    """By how much figures may differ and mean nothing. Ranks of one run are tested on the same samples."""
    if claim.figure == "accuracy":
        points = CERTAIN * sum(accuracy_error(run) ** 2 for run in runs) ** 0.5 if len(runs) > 1 else 0.0
        return points if is_share(claim) else points / max(SMALLEST_ACCURACY, lowest_accuracy(runs))
    quantity = QUANTITIES[claim.figure]
    spread = CERTAIN * sum(relative_error(run) ** 2 for run in runs) ** 0.5 if quantity.of_steps else 0.0
    return max(quantity.noise, spread)


def lowest_accuracy(runs: Sequence[Run]) -> float:
    return min((run.summary["test"]["accuracy"] for run in runs if run.summary and run.summary["test"]), default=0.0)


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
        "Ratios are of larger to smaller as the claim has it; points are of accuracy. Undecided: the difference is "
        "within noise, or runs of this kind do not show it.",
        extent,
    ]
    return Table("What the report claims, and what we find", columns, rows, notes)
