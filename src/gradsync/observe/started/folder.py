"""The folder of a watched command: made before it, and a run after it, if one of its processes has trained."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.launch.finish import finish, rank_names
from gradsync.launch.processes import pids_here
from gradsync.observe.entrance import TRACES
from gradsync.observe.started.command import Ended
from gradsync.parent import start_ticks, state
from gradsync.record import Run, create_folder, has_files, is_run, rank_files, read_run

PATIENCE_SECONDS = 10  # for processes of the command that live on after it
POLL_SECONDS = 0.05


def new_folder(out: Path, name: str | None, words: Sequence[str]) -> Path:
    if name is None:
        return create_folder(out, f"watch-{script_in(words)}")
    return joined(out / name, new=True)


def script_in(words: Sequence[str]) -> str:
    """The name of the script in a command, for the name of its folder."""
    scripts = [Path(word).stem for word in words if word.endswith((".py", ".sh"))]
    named = [scripts[0]] if scripts else [Path(words[0]).name]
    return "".join(letter if letter.isalnum() else "-" for letter in named[0]).strip("-") or "command"


def joined(folder: Path, new: bool = False) -> Path:
    """A folder in which several commands record one run together."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TRACES).mkdir(exist_ok=not new)
        taken = has_files(folder)  # the traces are hidden
    except FileExistsError:
        raise InputError(f"{folder} is there already: choose another --name, or --join it.") from None
    except OSError as error:
        raise InputError(f"cannot record into {folder}: {error.strerror or error}.") from None
    if new and taken:
        (folder / TRACES).rmdir()
        raise InputError(f"{folder} is not empty: a run is recorded into a folder of its own. Choose another --name.")
    if is_run(folder) and read_run(folder).summary:
        raise InputError(f"{folder} has a run that is finished: choose another folder to --join.")
    return folder


class Commands:
    """The commands that record into a folder together. The last one to end makes the run of it."""

    def __init__(self, folder: Path) -> None:
        self._traces = folder / TRACES
        self._traces.mkdir(exist_ok=True)
        self._own = self._traces / f"command-{processes_of()}-{os.getpid()}-{start_ticks(os.getpid())}"
        self._own.touch()

    def leave(self) -> bool:
        """Whether no other is left."""
        self._own.unlink(missing_ok=True)
        return not any(may_live(trace.name) for trace in self._traces.glob("command-*"))

    def seen(self, what: str) -> int:
        """How many processes have left such a trace."""
        return len(list(self._traces.glob(f"{what}-*")))

    def forget(self) -> None:
        shutil.rmtree(self._traces, ignore_errors=True)

    def discard(self) -> None:
        """The command could not be started: leave nothing behind that others do not use."""
        if self.leave():
            self.forget()
            with suppress(OSError):
                self._traces.parent.rmdir()


def processes_of() -> str:
    """The same for all who name a process by the same id: those who share a kernel, and in it a namespace of ids."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"
    return socket.gethostname()


def may_live(trace: str) -> bool:
    """Whether the command that left this trace may still run: known of those here, where one may have been killed."""
    whose, pid, began = trace.removeprefix("command-").rsplit("-", 2)
    if whose != processes_of() or not began.isdecimal():
        return True
    return start_ticks(int(pid)) == int(began) and state(int(pid)) != "Z"


def discard_unused(folder: Path) -> None:
    """Leave nothing of a tracker behind where nothing was recorded."""
    if not is_run(folder):
        shutil.rmtree(folder / "logs", ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


def run_of(folder: Path, commands: Commands, ended: Ended) -> Run:
    """The run that was recorded; an InputError says why there is none, or why it is not whole yet."""
    wait_for_ranks(folder)
    last = commands.leave()
    if not is_run(folder):
        reason = why_nothing(commands, ended)
        if last:
            commands.discard()
        raise InputError(reason)
    run = read_run(folder)
    assert isinstance(run, Run)
    there, size = sorted(rank_files(folder)), run.resolved.processes
    if not last:
        raise InputError(
            f"{run.name} has {rank_names(there)} of {size} so far: the last command to end finishes it. "
            f"HINT: if that was killed on another host, gradsync finish --anyway {run.name} makes a run of these."
        )
    commands.forget()
    if len(there) < size and ended.well:
        raise InputError(
            f"{run.name} has {rank_names(there)} of {size}: the others were recorded elsewhere, or not at all. "
            f"HINT: gradsync merge {run.name} OTHER... puts them together; gradsync finish --anyway {run.name} "
            "makes a run of what is here."
        )
    return finish(folder, anyway=True, signal=ended.stopped_by)


def wait_for_ranks(folder: Path) -> None:
    """Until the processes that were recorded on this host have ended: most have, as their command has."""
    if not is_run(folder):
        return
    until = time.monotonic() + PATIENCE_SECONDS
    while pids_here(folder, max(rank_files(folder), default=-1) + 1) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


def why_nothing(commands: Commands, ended: Ended) -> str:
    how = f"was killed by signal {-ended.code}" if ended.code < 0 else f"ended with exit code {ended.code}"
    start = f"nothing was recorded: the command {how}"
    if users := commands.seen("torch"):
        used = f"torch was imported by {counted(users, 'process', 'processes')}"
        return f"{start}; {used}, but no optimizer of torch.optim made a step after the forward of a model."
    if pythons := commands.seen("python"):
        return f"{start}; torch was not imported ({counted(pythons, 'Python process', 'Python processes')})."
    return (
        f"{start}; no Python was started that could be seen. HINT: python -I, -E and -S, a cleared environment "
        "and other hosts keep processes from finding us."
    )
