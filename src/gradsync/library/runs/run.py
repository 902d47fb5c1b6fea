"""What Python gets for a run, and for several: the folder, the figures, the tables and the charts."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from gradsync.errors import InputError
from gradsync.exhibit.remarks import failures
from gradsync.library.runs import frame
from gradsync.record import Recorded, RunSummary
from gradsync.record import Run as RecordedRun

if TYPE_CHECKING:
    import pandas

    from gradsync.exhibit.form import Section


MOST_SENTENCES = 3


class Run:
    """One run: it lies in its folder, and can be shown as long as the folder is there."""

    def __init__(self, recorded: RecordedRun) -> None:
        self._recorded = recorded

    @property
    def folder(self) -> Path:
        return self._recorded.folder

    @property
    def status(self) -> str:
        """completed, failed, or unfinished."""
        return self._recorded.status

    @property
    def summary(self) -> RunSummary | None:
        """What summary.json says (docs/internals/record.md). None: the run is unfinished."""
        return self._recorded.summary

    @property
    def config(self) -> dict[str, Any]:
        """The settings as they were asked for."""
        return self._recorded.config

    def steps(self) -> pandas.DataFrame:
        """A row for each rank and step: the seconds of each part of the ledger, loss, metrics, samples, bytes."""
        return frame.steps_of(self._recorded)

    def frame(self) -> pandas.DataFrame:
        """Its figures, in one row."""
        return frame.frame_of([self._recorded])

    def report(
        self, path: str | PathLike[str] | None = None, format: str | None = None, *, open: bool = False
    ) -> Path:
        """Write its page, or another format, named or by its suffix: html, md, json, latex, csv, svg, png."""
        return write_report([self.folder], path, format, open)

    def _sections(self) -> list[Section]:
        return shown([self._recorded], repeats=False)

    def _repr_html_(self) -> str:
        return as_html(self._sections(), [self._recorded])

    def __repr__(self) -> str:
        return f"<gradsync run {self._recorded.name}: {self.status}>"


class Runs(Sequence[Run]):
    """Several runs, in the order in which they were made."""

    def __init__(self, runs: Iterable[Run], folder: Path | None = None) -> None:
        self._runs = tuple(runs)
        self.folder = folder
        """The folder of the study they were made for, if they were."""

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> Runs: ...

    def __getitem__(self, index: int | slice) -> Run | Runs:
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __add__(self, other: Iterable[Run]) -> Runs:
        return Runs([*self, *other])

    @property
    def status(self) -> str:
        """completed if all of them are; else that of the first that is not."""
        return next((run.status for run in self if run.status != "completed"), "completed")

    def frame(self) -> pandas.DataFrame:
        """A row for each run: what tells the runs apart, then every figure, with its unit, and ± its deviation."""
        return frame.frame_of([run._recorded for run in self])

    def report(
        self, path: str | PathLike[str] | None = None, format: str | None = None, *, open: bool = False
    ) -> Path:
        """Write their page, or another format, named or by its suffix: html, md, json, latex, csv, svg, png."""
        return write_report([self.folder] if self.folder else [run.folder for run in self], path, format, open)

    def _repr_html_(self) -> str:
        recorded = [run._recorded for run in self]
        return as_html(shown(recorded), recorded)

    def __repr__(self) -> str:
        lines = [f"<{len(self)} gradsync runs{f' in {self.folder}' if self.folder else ''}:"]
        return "\n".join([*lines, *(f"  {run!r}" for run in self)]) + ">"


def shown(runs: Sequence[RecordedRun], repeats: bool = True) -> list[Section]:
    """The table with the first of what it shows, and where the time went: the rest is in the report."""
    from gradsync.exhibit.form import Chart, Section
    from gradsync.exhibit.runs.sections import sections

    found = sections(runs, repeats=repeats, pictures=False)
    charts = [item for section in found for item in section.exhibits if isinstance(item, Chart)]
    tables = [replace(section, sentences=section.sentences[:MOST_SENTENCES]) for section in found[:1]]
    return [*tables, Section("Where the time went", charts[:1])]


def as_html(sections: Sequence[Section], runs: Sequence[Recorded]) -> str:
    from gradsync.draw.html.fragment import fragment

    return fragment(sections, failures(runs))


def write_report(folders: Sequence[Path], path: str | PathLike[str] | None, form: str | None, show: bool) -> Path:
    """As ``gradsync report`` does; the path of the file to open first."""
    from gradsync.draw.export import form_and_path, write
    from gradsync.study.making.document import document
    from gradsync.study.making.found import collect

    form, place = form_and_path(form, None if path is None else Path(path))
    if show and form != "html":
        raise InputError(f"open=True shows a page: it does not go with the format {form}.")
    written = write(document(collect(folders)), place, form)
    if show:
        webbrowser.open(place.resolve().as_uri())
    return written[0] if written else place
