"""Runs and steps as DataFrames of pandas, which is imported here alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gradsync.config.objects import name_of
from gradsync.errors import InputError
from gradsync.exhibit.columns import cell_so_far
from gradsync.figures.cases import Case, one_by_one
from gradsync.figures.catalogue import FIGURES
from gradsync.figures.figure import UNITS, Figure
from gradsync.figures.value import Spread, Value, scaled
from gradsync.ledger.summary.by_step import rows_by_step
from gradsync.record import Run, rank_records

if TYPE_CHECKING:
    import pandas

ALWAYS = ("strategy", "workers")
NEVER = ("out",)
SPREAD = " ±"
"""Ends the name of the column with the standard deviation."""


def need_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise InputError("a DataFrame needs the package pandas: pip install 'gradsync[frame]'.") from None
    return pandas


def frame_of(runs: Sequence[Run]) -> pandas.DataFrame:
    """A row for each run: what tells the runs apart, then every figure that any of them has, with its unit."""
    pandas = need_pandas()
    found = one_by_one(runs)
    rows = [
        {**settings, **dict(figure_cells(case, found))} for case, settings in zip(found, differing(runs), strict=True)
    ]
    return pandas.DataFrame(rows).dropna(axis="columns", how="all")


def steps_of(run: Run) -> pandas.DataFrame:
    """A row for each rank and step, with the seconds of each part of the ledger."""
    pandas = need_pandas()
    return pandas.DataFrame(rows_by_step(rank_records(run.folder, run.resolved.trainers)))


def differing(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """Strategy, workers and status of each run, the settings in which the runs differ, and its folder."""
    all_settings = [settings_asked(run) for run in runs]
    names = dict.fromkeys(name for settings in all_settings for name in settings)
    differ = [name for name in names if len({repr(each.get(name)) for each in all_settings}) > 1]
    for run, settings in zip(runs, all_settings, strict=True):
        own = {name: settings.get(name) for name in differ if name not in ALWAYS}
        always = {"strategy": run.resolved.strategy, "workers": run.resolved.workers, "status": run.status}
        references = {name: value for name, value in (always | own).items() if isinstance(value, str)}
        shown = {name: name_in(name, value, runs) for name, value in references.items()}
        yield {**always, **own, **shown, "folder": str(run.folder)}


def settings_asked(run: Run) -> dict[str, Any]:
    """As they were asked for, with one name for each option of the strategy."""
    config = run.config
    options = {f"options.{name}": value for name, value in (config.pop("options", None) or {}).items()}
    return {**{name: value for name, value in config.items() if name not in NEVER}, **options}


def name_in(setting: str, reference: str, runs: Sequence[Run]) -> str:
    """An object by its name; with its hash where another one of these runs has an object of the same name."""
    same = {value for run in runs if name_of(value := str(run.config.get(setting))) == name_of(reference)}
    return name_of(reference) if len(same) < 2 else reference.partition(":")[2]


def figure_cells(case: Case, found: Sequence[Case]) -> Iterator[tuple[str, float | None]]:
    for figure in FIGURES.values():
        value = number_of(case, figure, found)
        mean, deviation = (value.mean, value.deviation) if isinstance(value, Spread) else (value, None)
        yield column(figure), mean  # type: ignore[misc] # figures are numbers
        yield column(figure) + SPREAD, deviation


def number_of(case: Case, figure: Figure, found: Sequence[Case]) -> Value:
    """In the unit of its column; percentages as numbers up to 100."""
    value = cell_so_far(case, figure, among=found)
    return scaled(value, UNITS[figure.bare_unit] / UNITS[figure.unit])


def column(figure: Figure) -> str:
    """Its name and its unit: ``step (s)``, ``accuracy (%)``."""
    return f"{figure.name} ({figure.bare_unit})" if figure.bare_unit else figure.name
