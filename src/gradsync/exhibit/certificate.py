"""The equivalence certificate: how far N workers' parameters are from those of one process, and a verdict."""

from __future__ import annotations

from collections.abc import Sequence

from gradsync.config.objects import name_of
from gradsync.config.values import counted
from gradsync.exhibit.columns import cell_of, column
from gradsync.exhibit.form import Column, Section, Table
from gradsync.figures.cases import cases
from gradsync.figures.catalogue.of_certificate import DISTANCE
from gradsync.figures.value import Value
from gradsync.record import Run
from gradsync.record.certificate import Certificate, read_certificate

BY_DESIGN = "approximate by design"

Certified = tuple[Run, Certificate]


def section(runs: Sequence[Run]) -> Section:
    """The certificates of the verified runs; the reference runs have none."""
    found = [(run, certificate) for run in runs if (certificate := read_certificate(run.folder))]
    title = "Equivalence certificate"
    return Section(title, [table(found)] if found else [], [conclusion(found)] if found else [])


def table(found: Sequence[Certified]) -> Table:
    columns = [
        Column("strategy"),
        Column("workers"),
        Column("servers"),
        Column("transport"),
        column(DISTANCE),
        Column("same bits on all ranks"),
        Column("verdict"),
        Column("what differs, and why"),
    ]
    several = len({run.summary.transport for run, _ in found if run.summary and run.summary.transport}) > 1
    repeated = any(len(case.runs) > 1 for case in cases(run for run, _ in found))
    rows: list[list[Value]] = []
    for run, certificate in found:
        figures = run.summary
        strategy = name_of(run.resolved.strategy)
        name = f"{strategy}, seed {run.resolved.seed}" if repeated else strategy
        rows.append(
            [
                name,
                run.resolved.workers,
                run.resolved.servers or None,
                figures.transport if figures and several else None,
                cell_of(certificate, DISTANCE),
                None if certificate.same_bits is None else "yes" if certificate.same_bits else "no",
                certificate.verdict,
                certificate.differs or None,
            ]
        )
    notes = [f"{DISTANCE.note}; same bits: whether every rank ends with the same parameters."]
    return Table(title_of(found[0][0]), columns, rows, notes)


def conformance(runs: Sequence[Run]) -> list[Section]:
    """What each strategy must do, one by one, over all numbers of workers. A detail where several were verified.

    Of the training loops, those that hold share one row; a table of their own, which is a detail, has them all.
    """
    found = [(run, certificate) for run in runs if (certificate := read_certificate(run.folder))]
    names = dict.fromkeys(name_of(run.resolved.strategy) for run, certificate in found if certificate.checks)
    if not names:
        return []
    rows: list[list[Value]] = []
    loops: list[list[Value]] = []
    broken: dict[str, list[str]] = {}
    for name in names:
        own = [(run, certificate) for run, certificate in found if name_of(run.resolved.strategy) == name]
        checks = dict.fromkeys((check.name, check.in_loop) for _, certificate in own for check in certificate.checks)
        others: list[bool | None] = []
        for check, in_loop in checks:
            holds, text = over_runs(own, check)
            row: list[Value] = [name, check, said(holds), text]
            if in_loop:
                loops.append(row)
            if in_loop and holds is not False:
                others.append(holds)
            else:
                rows.append(row)
            if holds is False:
                broken.setdefault(name, []).append(check)
        if others:
            rows.append([name, "training loops", *of_loops(others)])
    columns = [Column("strategy"), Column("what it must do"), Column("holds"), Column("found")]
    several = f"{len(names)} strategies do" if len(names) > 1 else f"{next(iter(names))} does"
    told = [f"{name} does not do what a strategy must: {', '.join(checks)}." for name, checks in broken.items()]
    table = Table("What a strategy must do", columns, rows)
    sentences = told or [f"{several} what a strategy must."]
    sections = [Section("Conformance", [table], sentences, detail=len(names) > 1 and not broken)]
    if loops:
        columns = [Column("strategy"), Column("training loop"), Column("holds"), Column("found")]
        table = Table("Training loops as users write them, against one process", columns, loops)
        sections.append(Section("Training loops", [table], detail=True))
    return sections


def said(holds: bool | None) -> str:
    return "–" if holds is None else "yes" if holds else "no"


def of_loops(holds: Sequence[bool | None]) -> tuple[str, str]:
    """Of the loops that do hold, or cannot be judged."""
    right = holds.count(True)
    if not right:
        return said(None), f"{counted(len(holds), 'way')} of writing them, not judged"
    rest = f"; {len(holds) - right} not judged" if right < len(holds) else ""
    return said(True), f"{counted(right, 'way')} of writing them, as in one process{rest}"


def over_runs(found: Sequence[Certified], name: str) -> tuple[bool | None, str]:
    """Where it does not hold, on which number of workers; else as it was found last."""
    several = len({run.resolved.workers for run, _ in found}) > 1
    checks = [(run, check) for run, certificate in found for check in certificate.checks if check.name == name]
    for run, check in checks:
        if check.holds is False:
            where = f" (on {counted(run.resolved.workers, 'worker')})" if several else ""
            return False, f"{check.found}{where}"
    known = [check for _, check in checks if check.holds is not None]
    return (True, known[-1].found) if known else (None, checks[-1][1].found)


def title_of(run: Run) -> str:
    asked = run.resolved
    length = counted(asked.steps, "step") if asked.steps else counted(asked.epochs or 1, "epoch")
    return f"{name_of(asked.model)}, {length} of {asked.batch_size} samples in {asked.precision}, against one process"


def conclusion(found: Sequence[Certified]) -> str:
    """One sentence."""
    bad = [run for run, certificate in found if not certificate.same_model]
    if bad:
        names = ", ".join(dict.fromkeys(way(run, found) for run in bad))
        return f"{len(bad)} of {len(found)} do not produce the same model as one process: {names}."
    by_design = sum(certificate.verdict == BY_DESIGN for _, certificate in found)
    verb = "is" if by_design == 1 else "are"
    rest = f"; {by_design} {verb} approximate by design, which does not count as a pass" if by_design else ""
    return f"{len(found) - by_design} of {len(found)} produce the same model as one process{rest}."


def way(run: Run, found: Sequence[Certified]) -> str:
    transports = {other.summary.transport for other, _ in found if other.summary and other.summary.transport}
    over = f" over {run.summary.transport}" if len(transports) > 1 and run.summary else ""
    return f"{name_of(run.resolved.strategy)} on {run.resolved.workers}{over}"
