"""A published report repeated: its runs made here, its tables and figures next to ours, a verdict on its claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gradsync.config import RunConfig
from gradsync.config.values import check_values, counted
from gradsync.errors import InputError, unknown
from gradsync.exhibit.form import OURS, PUBLISHED, Column, Section, Table
from gradsync.figures.cases import Case
from gradsync.figures.catalogue import find_figure
from gradsync.figures.catalogue.of_learning import ACCURACY
from gradsync.figures.figure import UNITS
from gradsync.figures.noise import chance, relative_chance
from gradsync.figures.value import Value, mean_of
from gradsync.record import Run
from gradsync.study.making.base import Study
from gradsync.study.making.carry_out import key
from gradsync.study.reproduce import published
from gradsync.study.reproduce.beside import Comparison
from gradsync.study.reproduce.ours import not_learnt, timed_steps, value_of
from gradsync.study.reproduce.published import Claim, PublishedExhibit, RunRank
from gradsync.study.reproduce.reports import REPORTS, Available, Scale
from gradsync.study.reproduce.verdict import VERDICTS, Finding, is_share, judge

FEWEST_TIMED = 3  # steps, to say anything about their time
SMALLEST_ACCURACY = 0.01
MARKS = dict(zip(VERDICTS, "✓✗?–", strict=True))


@dataclass(kw_only=True)
class Reproduction(Study):
    """One published report, and what there is to repeat it with: real data, emulated nodes, a GPU."""

    report: str = ""
    scale: Scale = "short"
    only: tuple[str, ...] = ()
    """Only these tables and figures; empty: all."""

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
    def title(self) -> str:  # type: ignore[override] # the others have one title each
        return self.published.title

    @property
    def default_folder(self) -> str:
        return f"{self.report}-{self.scale}"

    @property
    def exhibits(self) -> list[PublishedExhibit]:
        return [item for item in self.published.exhibits if not self.only or item.name in self.only]

    def cases(self) -> dict[str, RunConfig]:
        """Our runs, by their names in the published files: those that the exhibits need and that can be made."""
        made = REPORTS[self.report].cases(
            Available(self.scale, self.real_data, self.emulated, self.gpu, self.steps),
        )
        if self.gpu:  # the reports computed on CPUs, except for that run
            made = {name: config if name == "gpu" else replace(config, device="cpu") for name, config in made.items()}
        needed = {name for item in self.exhibits for row in item.rows for name in (row.place.run, row.against)}
        return {name: config for name, config in made.items() if name in needed}

    def plan(self) -> list[RunConfig]:
        """Each run once, also if several rows are about it."""
        return list({key(config.to_dict()): config for config in self.cases().values()}.values())

    def own_processes(self, asked: RunConfig) -> bool:
        return REPORTS[self.report].own_processes(asked)

    def by_name(self, runs: Sequence[Run]) -> dict[str, Case]:
        """Our cases by name, each with its repeats."""
        found = {key(run.config): run for run in runs}
        made = {
            name: tuple(found[each] for asked in self.repeated([config]) if (each := key(asked.to_dict())) in found)
            for name, config in self.cases().items()
        }
        return {name: Case(repeats) for name, repeats in made.items() if repeats}

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        ours = self.by_name(runs)
        extent = self.extent(ours)
        findings = self.findings(ours)
        claimed = (
            [Section("What the report claims", [claims_table(findings, extent)], told(findings))] if findings else []
        )
        compared = [Comparison(item, ours, [*filter(None, [item.note]), extent]).section() for item in self.exhibits]
        return [*claimed, *compared, *REPORTS[self.report].more(ours)]

    def summary(self, runs: Sequence[Run]) -> list[str]:
        ours = self.by_name(runs)
        findings = self.findings(ours)
        return [
            *self.told(runs)[0].doubts,
            *told(findings),
            *(str(item) for item in findings if item.verdict == "not reproduced"),
            self.extent(ours),
            f"Published: {self.published.setup}.",
        ]

    def findings(self, ours: dict[str, Case]) -> list[Finding]:
        """On the claims about the runs of the exhibits that were asked for."""
        asked = {row.place.run for item in self.exhibits for row in item.rows}
        return [
            self.finding(claim, ours)
            for claim in self.published.claims
            if all(place.run in asked for place in claim.places)
        ]

    def finding(self, claim: Claim, ours: dict[str, Case]) -> Finding:
        def our_value(place: RunRank) -> float | None:
            case = ours.get(place.run)
            return mean_of(value_of(claim.figure, case, place.rank)) if case else None

        runs_named = [place.run for place in claim.places]
        of_ranks = len(set(runs_named)) < len(runs_named)  # then another rank's figure is no substitute

        def their_value(place: RunRank) -> float | None:
            found = self.published.value(place, claim.figure, claim.exhibit, exactly=of_ranks)
            return found[0] / UNITS[found[1]] if found else None

        compared = [ours[name] for name in dict.fromkeys(runs_named) if name in ours]
        return judge(claim, our_value, their_value, self.doubt(claim, compared), noise(claim, compared))

    def doubt(self, claim: Claim, compared: Sequence[Case]) -> str:
        """Why runs of this kind cannot decide a claim; empty if they can."""
        figure = find_figure(claim.figure)
        if self.scale == "smoke":
            return "scale smoke"
        if not self.gpu and any(place.run == "gpu" for place in claim.places):
            return "no GPU here"
        to_be_equal = claim.kind == "alike" and claim.within == 0  # then none need have learnt
        if figure.learnt and not to_be_equal:
            return next(filter(None, map(not_learnt, compared)), "")
        if figure.of_run and self.steps:
            return f"all runs are {self.steps} steps long"
        if claim.figure == "total" and self.scale != "full":
            return "at this scale mostly the startup of the processes"
        fewest = min(map(timed_steps, compared), default=0)
        if figure.of_steps and fewest < FEWEST_TIMED:
            return f"{counted(fewest, 'step')} timed"
        return ""

    def extent(self, ours: dict[str, Case]) -> str:
        """How this differs from what the report did: shown below every figure."""
        parts = [f"Scale {self.scale}"]
        if self.steps:
            parts.append(f"{self.steps} steps of each run")
        elif self.scale != "full":
            smoke = "a few steps or samples, to see that it runs"
            parts.append(REPORTS[self.report].short if self.scale == "short" else smoke)
        settings = [case.setting for case in ours.values()]
        if any(asked["data"] == "synthetic" and asked["model"] != "alexnet" for asked in settings):
            parts.append("synthetic data instead of the real set, so that losses and accuracies mean nothing")
        if not self.emulated and any(len(run.summary.ranks) > 1 for run in runs_in(ours) if run.summary):
            parts.append("no emulated nodes: all workers share this machine")
        if not self.gpu and any(row.place.run == "gpu" for item in self.exhibits for row in item.rows):
            parts.append("no GPU here for the GPU run")
        if self.repeat > 1:
            parts.append(f"each run made {self.repeat} times, with a seed of its own")
        failed = {name: case for name, case in ours.items() if not case.completed}
        if failed:
            why = dict.fromkeys(case.remark for case in failed.values())
            parts.append(f"no figures of {', '.join(failed)}: {', '.join(why)}")
        return "; ".join(parts) + "."


def told(findings: Sequence[Finding]) -> list[str]:
    counts = {verdict: sum(item.verdict == verdict for item in findings) for verdict in VERDICTS}
    each = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    return [f"Of {counted(len(findings), 'claim')} of the report: {each}."] if findings else []


def runs_in(ours: dict[str, Case]) -> list[Run]:
    return [run for case in ours.values() for run in case.runs]


def noise(claim: Claim, compared: Sequence[Case]) -> float:
    """How much figures may differ by chance. Ranks of one run are tested on the same samples."""
    if claim.figure == ACCURACY.name:
        points = chance(compared, ACCURACY) if len(compared) > 1 else 0.0
        return points if is_share(claim) else points / max(SMALLEST_ACCURACY, lowest_accuracy(compared))
    figure = find_figure(claim.figure)
    return max(figure.noise, relative_chance(compared, figure))


def lowest_accuracy(compared: Sequence[Case]) -> float:
    found = [mean_of(case.value(ACCURACY)) for case in compared]
    return min((value for value in found if value is not None), default=0.0)


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
        "Ratios divide what the claim says is larger by what it says is smaller; points are of accuracy. Undecided: "
        "the difference is within noise, or runs of this kind cannot show it.",
        extent,
    ]
    return Table("What the report claims, and what we find", columns, rows, notes)
