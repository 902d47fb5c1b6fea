"""From run folders and studies to one Document: what every command shows, in every medium. Never needs torch."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradsync.config.objects import references_in
from gradsync.config.values import counted
from gradsync.exhibit import probe
from gradsync.exhibit.form import Column, Document, Section, Table, doubts_first
from gradsync.exhibit.remarks import not_completed
from gradsync.exhibit.runs import sections as of_runs
from gradsync.figures.cases import Case, cases
from gradsync.figures.catalogue.of_speed_up import is_one_process, is_weak, work_of
from gradsync.figures.value import Value
from gradsync.ledger.summary import figures_of
from gradsync.record import Recorded, Run, rank_file, read_rows
from gradsync.record.summaries import ClusterShape
from gradsync.study import scaling
from gradsync.study.making.base import Study
from gradsync.study.making.found import Found, StudyFound
from gradsync.text import printable
from gradsync.version import __version__


def document(found: Found, command: str = "", columns: Sequence[str] = (), pictures: bool = True) -> Document:
    """Studies first, then runs and benchmarks that belong to none. ``command``: what was typed, if it is known.

    ``pictures``: also the charts drawn from the rows of the ranks, which a terminal does not show.
    """
    own = of_runs.sections(found.loose_runs, columns, repeats=False, pictures=pictures)
    loose = doubts_first(
        [*own, *scaled(found.loose_runs), *probe.sections(found.loose_probes)], probe.doubts(found.loose_probes)
    )
    return Document(
        title=title(found),
        summary=list(
            dict.fromkeys(
                [
                    *(sentence for each in found.studies for sentence in each.study.summary(each.runs)),
                    *(loose[0].sentences if own else ()),
                ]
            )
        ),
        sections=[
            *(section for each in found.studies for section in about_study(each, found, pictures)),
            *loose,
            *not_completed(found.loose_probes, "Benchmarks that were not completed"),
        ],
        command=command or commands(found),
        environment=environment(found.runs) if pictures else None,
        left_out=found.left_out,
    )


def study_document(study: Study, runs: Sequence[Any], folder: Path, command: str) -> Document:
    """The document of a study that has just been carried out."""
    return document(Found(studies=[StudyFound(folder, study, list(runs), command)], runs=trained(runs)), command)


def about_study(each: StudyFound, found: Found, pictures: bool) -> list[Section]:
    """The sections of a study, under its name if the page shows more than this study."""
    sections = study_sections(each.study, each.runs, pictures)
    if len(found.studies) == 1 and not found.loose_runs and not found.loose_probes:
        return sections
    return [replace(section, title=f"{each.folder.name}: {section.title}") for section in sections]


def study_sections(study: Study, runs: Sequence[Any], pictures: bool = True) -> list[Section]:
    """What a study shows, and as details everything about its runs; a comparison has these already."""
    own = study.told(runs)
    if study.shows_runs:
        return own
    about = of_runs.sections(trained(runs), pictures=pictures)
    titles = {section.title for section in own}
    said = {sentence for section in own for sentence in section.sentences}
    details = [
        replace(section, detail=True, sentences=[each for each in section.sentences if each not in said])
        for section in about
        if not section.failures and section.title not in titles
    ]
    return [*own, *details, *not_completed(runs)]


def trained(runs: Sequence[Any]) -> list[Run]:
    return [run for run in runs if isinstance(run, Run)]


def title(found: Found) -> str:
    if len(found.studies) == 1 and not found.loose_runs:
        return found.studies[0].study.title
    if found.studies:
        return counted(len(found.studies), "study", "studies")
    figures = [figures_of(run) for run in found.runs]
    models = dict.fromkeys(f"{each.model} on {each.data}" for each in figures)
    if not models:
        return "Collective benchmark"
    subject = " and ".join(models) if len(models) < 3 else f"{len(models)} models and data sets"
    return f"{subject}: {counted(len(found.runs), 'run')}"


def scaled(runs: Sequence[Run]) -> Iterator[Section]:
    """Scaling by workers, where one process has done the same work."""
    found = cases(run for run in runs if run.status == "completed")
    for mode in ("strong", "weak"):
        groups: dict[tuple[Any, ...], list[Case]] = {}
        for case in found:
            if scaling.mode_of(case) == mode:
                cluster = case.figures.cluster
                bandwidth = cluster.bandwidth if cluster else None
                groups.setdefault((*work_of(case, is_weak(case)), bandwidth), []).append(case)
        for group in groups.values():
            if any(map(is_one_process, group)) and len({case.figures.world_size for case in group}) > 1:
                yield replace(scaling.section(mode, group), detail=True)


def commands(found: Found) -> str:
    """The commands that repeat it: a study's own, and one for each other run, from its config.

    None for a run with objects of a Python session, which no command has.
    """
    single = [
        shlex.join(["gradsync", "train", "--config", str(run.folder / "config.json")])
        for run in found.loose_runs
        if not references_in(run.config)
    ]
    return printable("\n".join([*(each.command for each in found.studies if each.command), *single]))


def environment(runs: Sequence[Run]) -> Table | None:
    """Where the runs were made, as recorded by their rank 0; equal environments are counted in one row."""
    places: dict[tuple[Value, ...], int] = {}
    for run in runs:
        start = next((row for row in read_rows(rank_file(run.folder, 0)) if row["kind"] == "start"), None)
        if start:
            place = tuple(about(start, run))
            places[place] = places.get(place, 0) + 1
    if not places:
        return None
    names = ("processor", "cores", "device", "system", "Python", "torch", "nodes", "runs")
    rows = [[*place, count] for place, count in places.items()]
    columns = [Column(name) for name in names]
    return Table("Where it was run", columns, rows, [f"Report made by gradsync {__version__}."])


def about(start: Any, run: Recorded) -> Iterator[Value]:
    host = start.get("host") or {}
    yield from (host.get("processor"), host.get("cores"), host.get("device") or start["device"])
    yield from (host.get("system"), host.get("python"), start.get("torch"))
    yield nodes_text(run.summary.cluster if run.summary else None, run.summary.nodes if run.summary else 1)


def nodes_text(cluster: ClusterShape | None, nodes: int) -> str:
    if cluster is None:
        return "this machine" if nodes <= 1 else counted(nodes, "node")
    shape = [
        f"{cluster.cpus:g} of a core each" if cluster.cpus else "",
        cluster.bandwidth or "",
        f"{cluster.latency} one-way latency" if cluster.latency else "",
        f"{cluster.memory} each" if cluster.memory else "",
    ]
    return ", ".join(["emulated", *filter(None, shape)])
