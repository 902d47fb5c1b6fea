"""Processes started by mpiexec."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch.outcome import Outcome, died
from gradsync.launch.processes import (
    PATIENCE,
    WORKER,
    end_sessions,
    last_words,
    rank_environment,
    run_starter,
    words_of,
)
from gradsync.launch.reach import HostUnreachable, Ssh, reached
from gradsync.record import rank_files, read_rows

LOG = "mpiexec.log"


def launch(config: RunConfig, folders: Sequence[Path], module: str = WORKER) -> Outcome:
    """Start the ranks for these runs and wait. If one fails, mpiexec ends the others."""
    folder = folders[0]
    (folder / "logs").mkdir(exist_ok=True)
    log, variables = folder / "logs" / LOG, rank_environment(config)
    if not (config.hosts or config.is_emulated):
        words = command(config, folders, module)
        return judge(config, run_starter(words, log, variables | LOOPBACK_ONLY, PATIENCE), folder)
    with reached(config) as nodes:
        try:
            nodes.send(folders)
        except HostUnreachable as error:
            return Outcome(failure=error)
        words = command(config, folders, module, nodes.names, nodes.shell(folder / "logs"))
        try:
            code = run_starter(nodes.from_first(words), log, variables, PATIENCE)
        finally:
            nodes.fetch(folders)
        return judge(config, code, folder)


def judge(config: RunConfig, code: int, folder: Path) -> Outcome:
    """What became of the run, from mpiexec's exit code and words and from what the ranks have written."""
    said = (folder / "logs" / LOG).read_text(errors="replace")
    if code and not rank_files(folder):
        return Outcome(failure=MpiexecFailed(f"mpiexec started nothing: {last_words(said)}"))
    if code and not config.hosts:
        end_sessions(folder, config.processes)
    told = any(row["kind"] == "error" for path in rank_files(folder).values() for row in read_rows(path))
    return outcome(code, said, told)


class MpiexecFailed(Exception):
    """It has told why."""


class ProcessDied(Exception):
    """One of them: mpiexec does not say which."""


# The mpich wheel otherwise listens on every interface it finds.
LOOPBACK_ONLY = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}


def command(
    config: RunConfig,
    folders: Sequence[Path],
    module: str = WORKER,
    hosts: Sequence[str] = (),
    shell: Sequence[str] = (),
) -> list[str]:
    """``hosts``: for every place of the config, where it is; ``shell``: the program that reaches them, if not ssh."""
    worker = [config.remote_python or sys.executable, "-u", "-m", module, *(str(item.absolute()) for item in folders)]
    mpiexec = find_mpiexec(config.mpiexec)
    if not hosts:
        return [*mpiexec, "-n", str(config.processes), *worker]
    slots = [f"{hosts[place]}:{len(list(ranks))}" for place, ranks in groupby(config.places)]
    return [*mpiexec, *shell, "-host", ",".join(slots), "-n", str(config.processes), *worker]


def text(config: RunConfig, folder: Path, module: str = WORKER) -> str:
    """The command that starts all of it, to be given by hand on a machine that reaches the hosts."""
    settings = " ".join(f"{name}={value}" for name, value in rank_environment(config).items())
    (folder / "logs").mkdir(exist_ok=True)
    shell = Ssh(config).shell(folder / "logs") if config.hosts else []
    after = f"# When it has ended: gradsync finish {shlex.quote(str(folder.absolute()))}"
    return f"{settings} {shlex.join(command(config, [folder], module, config.hosts, shell))}\n{after}"


def find_mpiexec(asked: str | None) -> list[str]:
    """What was asked for, else the one that came with this python's MPI, else the one on the path."""
    if asked:
        return words_of("--mpiexec", asked)
    found = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if found is None:
        raise InputError("--launcher mpi needs mpiexec: pip install 'gradsync[mpi]', or name yours with --mpiexec.")
    return [found]


def outcome(code: int, log: str, told: bool) -> Outcome:
    """mpiexec has one exit code for all, and blames any process it ended. ``told``: a rank has written why."""
    if code == 0:
        return Outcome()
    if told:
        return Outcome(exit_codes={0: code})
    killed = re.search(r"EXIT STRING: .*\(signal (\d+)\)", log)
    return Outcome(
        failure=ProcessDied(
            died(-int(killed[1]) if killed else code).replace("the process", "one of the processes", 1)
        )
    )
