"""Watching the process we are in: because the command says so, or the script's own line ``gradsync.watch()``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gradsync.errors import InputError
from gradsync.library.exits import listen
from gradsync.live import trackers
from gradsync.live.trackers.running import Trackers
from gradsync.observe.entrance import FOLDER
from gradsync.observe.hooks import Hooks
from gradsync.observe.watcher import Watcher

if TYPE_CHECKING:
    from gradsync.observe.recording import Recording
    from gradsync.rank.world import World

AGREED = "gradsync/watch/folder"
"""The key under which rank 0 tells the others where the run is recorded."""

PATIENCE_SECONDS = 30
"""In which rank 0 must end its first step after another rank has ended its own: meanwhile that one does not train."""

_watched: list[Watcher] = []
"""This process is watched once."""


def watch_by_environment() -> None:
    """The command has made the folder, and writes the summary."""
    start(Watcher(lambda _: Path(os.environ[FOLDER])))


def watch(
    out: str | os.PathLike[str] = "runs",
    *,
    name: str | None = None,
    report: bool = True,
    log_to: str | Sequence[str] = (),
) -> None:
    """Record the training of this script, as ``gradsync watch`` does: one line at its top.

    Functions of torch.distributed that were imported by name before it are not seen. ``out``: the folder in which the
    run gets its own, called ``name`` or after date, time and script. ``report``: rank 0 prints the tables at the end.
    ``log_to``: also log it to tensorboard, mlflow or wandb, or to several. Under the command this does nothing, as
    the command does it all.
    """
    if _watched:
        return
    if name is not None and (Path(out) / name).exists():
        raise InputError(f"{Path(out) / name} is there already: choose another name, or leave it out.")
    names = trackers.named(log_to)
    logged = Trackers()

    def place(here: World) -> Path:
        folder = agreed_folder(here, Path(out), name)
        logged.begin(folder, names if here.rank == 0 else ())
        listen(watcher.ends)
        return folder

    def end(record: Recording) -> None:
        finish(record, report)
        logged.end()

    watcher = Watcher(place, end)
    start(watcher)


def start(watcher: Watcher) -> None:
    listen()
    _watched.append(watcher)
    Hooks(watcher).install()


def agreed_folder(here: World, out: Path, name: str | None) -> Path:
    """Rank 0 chooses it with its first step, and tells the others over the store through which all have met."""
    import torch.distributed as dist

    store = dist.distributed_c10d._get_default_store() if dist.is_initialized() else None
    if here.rank != 0 and store is not None:
        try:
            store.wait([AGREED], timedelta(seconds=PATIENCE_SECONDS))
        except RuntimeError:
            raise InputError(
                f"rank {here.rank} is not recorded, as rank 0, which chooses the folder, has recorded no step within "
                f"{PATIENCE_SECONDS} s of its first one"
            ) from None
        return Path(store.get(AGREED).decode())
    folder = out / (
        name or f"{time.strftime('%Y%m%d-%H%M%S')}-{Path(sys.argv[0]).stem or 'interactive'}-{here.size}w"
    )
    if store is not None:
        store.set(AGREED, str(folder.absolute()))
    return folder.absolute()


def finish(record: Recording, report: bool) -> None:
    """Rank 0 waits for the last rows of the others, writes the summary and prints it."""
    from gradsync.library.report import finish_recording

    if record.folder is not None and record.here.rank == 0:
        with suppress(OSError):  # the disk is full: the script's own end matters more
            finish_recording(record.folder, record.here.size, record.cause, report)
