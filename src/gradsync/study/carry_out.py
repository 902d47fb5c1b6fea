"""Make the runs of a study: those that are finished are kept, whatever became of the command that made them."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.record import Run, read_run, write_json

STUDY_FILE = "study.json"

IsNeedless = Callable[[RunConfig, Sequence[Run]], bool]


def study_folder(out: str, name: str) -> Path:
    return Path(out) / name


def prepare(
    folder: Path, name: str, settings: dict[str, Any], command: str, plan: Sequence[RunConfig]
) -> list[RunConfig]:
    """Remember what is asked. Returns the runs with the place where their folders go."""
    placed = [replace(config, out=str(folder / "runs")) for config in plan]
    with writing_to(folder):
        write_json(
            folder / STUDY_FILE,
            {"study": name, "settings": settings, "command": command, "plan": [item.to_dict() for item in placed]},
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
    return (folder / STUDY_FILE).exists()


def read_study(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / STUDY_FILE).read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"cannot read the study in {folder}: {error}.") from None


def runs_of(folder: Path) -> list[Run]:
    """Those of the plan that have ended, in its order, whatever became of them. Only reads."""
    kept = Kept(folder)
    return [run for config in read_study(folder)["plan"] if (run := kept.find(config) or kept.find_failed(config))]


class Kept:
    """The runs of a study that have ended, by what they were asked to do."""

    def __init__(self, folder: Path, finish: bool = False) -> None:
        """``finish``: write the summaries of runs whose command was killed after they had ended."""
        self._done: dict[str, Run] = {}
        self._failed: dict[str, Run] = {}
        for path in sorted((folder / "runs").glob("*/config.json")):
            with suppress(InputError):
                run = read_run(path.parent)
                if run.summary is None and finish:  # others of the same processes may have been still to come
                    run = launch.finish(path.parent)
                if run.status == "completed" or run.out_of_memory:
                    self._done[key(run.config)] = run
                elif run.summary:
                    self._failed[key(run.config)] = run

    def find(self, config: dict[str, Any]) -> Run | None:
        """One that need not be made again."""
        return self._done.get(key(config))

    def find_failed(self, config: dict[str, Any]) -> Run | None:
        return self._failed.get(key(config))


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
