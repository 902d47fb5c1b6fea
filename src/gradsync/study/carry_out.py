"""Make the runs of a study: those that are finished are kept, whatever became of the command that made them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, TypedDict

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.record import (
    CONFIG_FILE,
    DamagedRecord,
    Run,
    UnreadableRecord,
    read_json,
    read_run,
    settings,
    write_json,
)
from gradsync.record.shape import Wrong, checker

STUDY_FILE = "study.json"

IsNeedless = Callable[[RunConfig, Sequence[Run]], bool]


def study_folder(out: str, name: str) -> Path:
    return Path(out) / name


def prepare(
    folder: Path, name: str, asked: dict[str, Any], command: str, plan: Sequence[RunConfig]
) -> list[RunConfig]:
    """Remember what is asked. Returns the runs with the place where their folders go."""
    placed = [replace(config, out=str(folder / "runs")) for config in plan]
    with writing_to(folder):
        write_json(
            folder / STUDY_FILE,
            {"study": name, "settings": asked, "command": command, "plan": [item.to_dict() for item in placed]},
        )
    return placed


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """The folder is there; if it cannot be written to, a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror or error}. Choose another with --out.") from None


def is_study(folder: Path) -> bool:
    return os.path.exists(folder / STUDY_FILE)


class StudyRecord(TypedDict):
    study: str
    settings: dict[str, Any]
    command: str | None
    plan: list[dict[str, Any]]


def read_study(folder: Path) -> dict[str, Any]:
    """study.json, its plan with every setting this version has."""
    record = read_json(folder / STUDY_FILE)
    try:
        checker(StudyRecord)(record)
        plan = [settings(config, RunConfig).to_dict() for config in record["plan"]]
    except (Wrong, InputError) as error:
        raise DamagedRecord(folder, f"{STUDY_FILE}: {error}") from None
    return {**record, "plan": plan}


def runs_of(folder: Path) -> list[Run]:
    """Those of the plan that have ended, in its order, whatever became of them. Only reads."""
    return Kept(folder).of_plan(read_study(folder)["plan"])


class Kept:
    """The runs of a study that have ended, by what they were asked to do."""

    def __init__(self, folder: Path, finish: bool = False) -> None:
        """``finish``: write the summaries of runs whose command was killed after they had ended."""
        self._done: dict[str, Run] = {}
        self._failed: dict[str, Run] = {}
        self.unreadable: list[UnreadableRecord] = []
        """What cannot be read is not there for the study: on resuming it is made again."""

        for path in sorted((folder / "runs").glob(f"*/{CONFIG_FILE}")):
            try:
                run = read_run(path.parent)
            except UnreadableRecord as error:
                self.unreadable.append(error)
                continue
            if run.summary is None and finish:
                with suppress(InputError):  # others of the same processes may have been still to come
                    run = launch.finish(path.parent)
            if run.status == "completed" or run.out_of_memory:
                self._done[key(run.config)] = run
            elif run.summary:
                self._failed[key(run.config)] = run

    def find(self, config: dict[str, Any]) -> Run | None:
        """One that need not be made again."""
        return self._done.get(key(config))

    def of_plan(self, plan: Sequence[dict[str, Any]]) -> list[Run]:
        """Those that have ended, in the plan's order, whatever became of them."""
        return [run for config in plan if (run := self.find(config) or self._failed.get(key(config)))]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Nobody else makes runs of this study meanwhile."""
    with writing_to(folder):
        file = open(folder / ".lock", "w")  # noqa: SIM115 - closed below, when the runs are made
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"another command is at work in {folder}. HINT: wait for it, or give this one another --out."
            ) from None
        yield


def key(config: dict[str, Any]) -> str:
    """Two configs for which this is the same ask for the same run, wherever its folder is."""
    return json.dumps({name: value for name, value in config.items() if name != "out"}, sort_keys=True)


def carry_out(
    folder: Path,
    plan: Sequence[RunConfig],
    watch: launch.Watch,
    is_needless: IsNeedless = lambda config, done: False,
    own_processes: Callable[[RunConfig], bool] = lambda config: False,
) -> list[Run]:
    """The runs of the plan, in its order, as far as they came: an interrupted or needless one is missing.

    Runs that follow each other and can have the same processes get them, unless each is to have its own.
    """
    kept = Kept(folder, finish=True)
    done: list[Run] = []
    numbered = list(enumerate(plan))
    for together, group in groupby(numbered, lambda item: shared_start(item, kept, own_processes)):
        configs = [config for _, config in group]
        if together is None:
            done += [run for config in configs if (run := kept.find(config.to_dict()))]
            continue
        wanted = [config for config in configs if not is_needless(config, done)]
        done += launch.run_in_turn(wanted, watch) if wanted else []
        if done and done[-1].stopped_by:
            break
    return done


def shared_start(item: tuple[int, RunConfig], kept: Kept, own_processes: Callable[[RunConfig], bool]) -> Any:
    """None: it is finished. Else the same for neighbours that can have the same processes."""
    number, config = item
    if kept.find(config.to_dict()):
        return None
    return number if own_processes(config) else launch.start_of(config.resolved())
