"""One run from several folders, each with other ranks of it: recorded on hosts that share no folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from gradsync.config import Resolved
from gradsync.errors import InputError
from gradsync.launch.finish import finish, rank_names
from gradsync.record import Run, rank_file, rank_files, read_run, write_settings

SAME = ("model", "strategy", "workers", "batch_size", "data", "precision")
"""Settings that are the same on all ranks of a run."""


def merge(folders: Sequence[Path], out: Path | None) -> Run:
    """Refuses folders of different runs, ranks that are there twice, and ranks that are missing."""
    found = [part(folder) for folder in folders]
    if len(found) < 2:
        raise InputError("merge needs two folders or more, with different ranks of one run.")
    refuse_different(found)
    files = ranks_of(found)
    config = found[0].resolved
    if missing := sorted(set(range(config.processes)) - set(files)):
        raise InputError(
            f"{rank_names(missing)} of {config.processes} is in none of the folders. "
            "HINT: name the folder of every host."
        )
    target = out or found[0].folder.with_name(f"{found[0].folder.name}-merged")
    make(target)
    for rank, path in files.items():
        shutil.copyfile(path, rank_file(target, rank))
    write_settings(target, config)
    return finish(target, anyway=True)


def part(folder: Path) -> Run:
    run = read_run(folder)
    if not isinstance(run, Run):
        raise InputError(f"{run.name} is a collective benchmark: there is nothing to merge.")
    return run


def refuse_different(runs: Sequence[Run]) -> None:
    first = runs[0]
    for other in runs[1:]:
        for name in SAME:
            ours, theirs = (value_of(run.resolved, name) for run in (first, other))
            if ours != theirs:
                raise InputError(
                    f"{first.name} and {other.name} are not of the same run: {name.replace('_', ' ')} is {ours} in "
                    f"one and {theirs} in the other."
                )


def value_of(config: Resolved, name: str) -> object:
    return getattr(config, name)


def ranks_of(runs: Sequence[Run]) -> dict[int, Path]:
    """rank -> its file; a rank that is in two folders is refused."""
    found: dict[int, Path] = {}
    for run in runs:
        for rank, path in rank_files(run.folder).items():
            if rank in found:
                raise InputError(
                    f"rank {rank} is in {found[rank].parent} and in {run.name}: each rank of a run is recorded once."
                )
            found[rank] = path
    return found


def make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"{folder} is there already: choose another folder with --out.") from None
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}. Choose another folder with --out.") from None
