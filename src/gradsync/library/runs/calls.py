"""Runs from Python: the same settings, checks, folders and errors as on the command line."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from gradsync import launch
from gradsync.config import RunConfig, objects
from gradsync.config.values import shown
from gradsync.errors import InputError, RunFailed
from gradsync.exhibit.columns import choose
from gradsync.exhibit.remarks import failure
from gradsync.library.runs import given
from gradsync.library.runs.check import check
from gradsync.library.runs.frame import frame_of
from gradsync.library.runs.nodes import on_nodes
from gradsync.library.runs.run import Run, Runs
from gradsync.library.runs.studies import checked, made, stopped_by
from gradsync.live.display import Display
from gradsync.record import Recorded
from gradsync.record import Run as RecordedRun
from gradsync.study import CompareStudy, Sweep
from gradsync.study.making.found import found_in

if TYPE_CHECKING:
    import pandas

WITH_LISTS = ("hosts", "sbatch", "decay_epochs", "metric", "log_to")
"""Settings that are lists themselves: in a sweep, a list for one of them is its value."""


def train(*, progress: bool = True, **settings: Any) -> Run:
    """Train one model with one strategy, as ``gradsync train`` does.

    run = gradsync.train(model=make_model, strategy=MySync, workers=2, steps=100)

    The settings are the flags of the command, with underscores; ``config`` is a file of them. ``model``, ``data``,
    ``loss``, ``metric``, ``optimizer`` and ``strategy`` may also be functions, classes or objects of this session.
    Raises ``RunFailed`` if the run fails.
    """
    with objects.forgotten_afterwards():
        asked = on_nodes(RunConfig(**given.settings_of(RunConfig, settings, "gradsync.train")))
        with Display(progress).of_runs(asked.log_every)(0, 1) as watch:
            (run,) = launch.run_in_turn(check([asked]), watch)
    refuse_stopped([run])
    if run.status != "completed":
        traceback = f"\n\n{run.error.traceback.rstrip()}" if run.error and run.error.traceback else ""
        raise RunFailed(f"{failure(run)}{traceback}", Run(run))
    return Run(run)


def compare(*, progress: bool = True, **settings: Any) -> Runs:
    """The same work under several strategies, as ``gradsync compare`` does.

    runs = gradsync.compare(strategies=["local", "ddp", MySync], workers=2, repeat=3)

    A strategy that fails does not end the others: its run is among the result, with its status.
    """
    with objects.forgotten_afterwards():
        study = CompareStudy(**given.settings_of(CompareStudy, settings, "gradsync.compare"))
        choose(study.columns)
        return carried_out(study, called("compare", settings), progress)


def sweep(base: Mapping[str, Any] | RunConfig | None = None, *, progress: bool = True, **settings: Any) -> Runs:
    """Every combination of values, as ``gradsync study sweep`` does.

    runs = gradsync.sweep({"model": make_model, "steps": 100}, strategy=["ddp", MySync], lr=[0.01, 0.1], repeat=3)

    Every setting with a list is varied; the others, and those of ``base``, are shared by all runs.
    """
    with objects.forgotten_afterwards():
        shared, varied = divided({**given.as_settings(base or {}), **settings}, settings)
        study = Sweep(**given.settings_of(Sweep, shared, "gradsync.sweep"), vary=varied)
        return carried_out(study, called("sweep", {**given.as_settings(base or {}), **settings}), progress)


def load(*paths: str | PathLike[str]) -> Runs:
    """The runs in these folders: run folders, studies, or folders of them. Default: what commands write to."""
    places = tuple(map(Path, paths)) or tuple(path for path in (Path("runs"), Path("studies")) if path.is_dir())
    found = found_in(places)
    if not found.runs:
        why = "".join(f"\n{error}" for error in found.unreadable)
        raise InputError(
            f"{', '.join(map(str, places or ('runs',)))} holds no run that can be shown: there is no config.json in "
            f"it or in a folder below it.{why}"
        )
    for error in found.unreadable:
        warnings.warn(str(error), stacklevel=2)
    folder = found.studies[0].folder if len(found.studies) == 1 and not found.loose_runs else None
    return Runs(map(Run, found.runs), folder)


def frame(runs: Run | Iterable[Run] | str | PathLike[str]) -> pandas.DataFrame:
    """A DataFrame with a row for each run; ``runs``: what a call returned, several of them joined, or a folder."""
    if isinstance(runs, (str, PathLike)):
        runs = load(runs)
    each = [runs] if isinstance(runs, Run) else list(runs)
    for run in each:
        if not isinstance(run, Run):
            raise InputError(f"gradsync.frame was given {shown(run)}: it takes runs, or a folder of them.")
    return frame_of([run._recorded for run in each])


def carried_out(study: CompareStudy | Sweep, typed: str, progress: bool) -> Runs:
    study = on_nodes(study)
    display = Display(progress)
    ready = checked(study)
    watch = display.of_runs(study.log_every) if isinstance(study, CompareStudy) else display.of_study()
    runs = made(study, ready, typed, display.console, watch)
    refuse_stopped(runs)
    return Runs((Run(run) for run in runs if isinstance(run, RecordedRun)), ready.folder)


def refuse_stopped(runs: Sequence[Recorded]) -> None:
    """A call that was interrupted ends as any other in Python; what was made so far is kept."""
    if signal := stopped_by(runs):
        raise KeyboardInterrupt(signal)


def divided(settings: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings all runs share, and those that are varied, as --vary takes them."""
    shared = {name: value for name, value in settings.items() if name in WITH_LISTS or not is_several(value)}
    varied = {name: list(value) for name, value in settings.items() if name not in shared}
    if not varied:
        raise InputError("nothing is varied: give a setting a list of values, for instance lr=[0.01, 0.1].")
    return shared, tuple(f"{name}={','.join(texts(name, values))}" for name, values in varied.items())


def is_several(value: Any) -> bool:
    return isinstance(value, (list, range, numpy.ndarray))


def texts(name: str, values: Sequence[Any]) -> list[str]:
    """The values of a setting as they would be typed."""
    if not values:
        raise InputError(f"{name} is an empty list: give it the values to try, for instance lr=[0.01, 0.1].")
    names = given.Names(name)
    found = []
    for value in map(names.of, values):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if not isinstance(value, (str, int, float)) or "," in text or not text:
            raise InputError(
                f"{name} has {shown(value)}: each value that is varied must be a number, true, false, text without "
                "commas, or an object."
            )
        found.append(text)
    return found


def called(name: str, settings: Mapping[str, Any]) -> str:
    """The call, as a page shows it."""
    return f"gradsync.{name}({', '.join(f'{key}={brief(value)}' for key, value in settings.items())})"


def brief(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(brief, value))}]"
    return repr(value) if isinstance(value, (str, int, float, dict, type(None), PathLike)) else given.called(value)
