"""Processes started by mpiexec: on one machine, on emulated nodes, or on hosts over ssh."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path

from gradsync.config import Resolved
from gradsync.errors import NOT_RECORDED, InputError
from gradsync.launch.mpi import leftovers as mpi_leftovers
from gradsync.launch.mpi.first_to_end import FirstToEnd
from gradsync.launch.outcome import UNTOLD, Outcome, died
from gradsync.launch.processes import (
    PATIENCE,
    SIGNALS_BY_NAME,
    WORKER,
    StoppedRanks,
    end_sessions,
    last_words,
    pids_here,
    rank_environment,
    rank_words,
    run_starter,
    starts,
    words_of,
)
from gradsync.launch.reach import HostUnreachable, Ssh, reached
from gradsync.parent import signals_held
from gradsync.record import rank_file, rank_files, rows_so_far

LOG = "mpiexec.log"

# Otherwise the ranks listen on every interface they find: the mpich wheel has UCX and libfabric, and uses UCX.
LOOPBACK_ONLY = {"UCX_NET_DEVICES": "lo", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}

# A rank that reads from the memory of another aborts when that one is killed, and would be blamed for it. Messages go
# through shared memory instead, in the same time: 0.436 s and 0.437 s for a step of vgg11, with two workers.
NOT_FROM_MEMORY_OF_OTHERS = {"UCX_TLS": "^cma"}

STOPPED = -signal.SIGSTOP  # instead of mpiexec's own exit code, when we ended it because of a rank that was stopped


def launch(config: Resolved, folders: Sequence[Path], program: str = WORKER) -> Outcome:
    """Start the ranks for these runs and wait. If one fails, mpiexec ends the others."""
    mpi_leftovers.remove()  # those of runs whose command was killed outright
    try:
        return launch_there(config, folders, program)
    finally:
        with signals_held():
            mpi_leftovers.remove()


def launch_there(config: Resolved, folders: Sequence[Path], program: str) -> Outcome:
    folder, variables = folders[0], rank_environment(config) | NOT_FROM_MEMORY_OF_OTHERS
    (folder / "logs").mkdir(exist_ok=True)
    if not (config.hosts or config.is_emulated):
        return run(config, command(config, folders, program), variables | LOOPBACK_ONLY, folder)
    with reached(config) as nodes:
        try:
            nodes.send(folders)
        except HostUnreachable as error:
            return Outcome(failure=error)
        words = command(config, folders, program, nodes.names, nodes.shell(folder / "logs"))
        try:
            return run(config, nodes.from_first(words), variables, folder)
        finally:
            nodes.fetch(folders)


def run(config: Resolved, words: Sequence[str], variables: Mapping[str, str], folder: Path) -> Outcome:
    """Run mpiexec; how the ranks ended follows from its exit code and output, and from their records."""
    stopped = StoppedRanks(config.timeout)
    too_long: list[int] = []
    ended = FirstToEnd(folder, config.processes)

    def watch() -> int | None:
        too_long.extend([] if config.hosts else stopped.overdue(pids_here(folder, config.processes)))
        return STOPPED if too_long else None

    try:
        with nullcontext() if config.hosts else ended:
            code = run_starter(words, folder / "logs" / LOG, variables, PATIENCE, watch)
    finally:
        if not config.hosts:
            end_sessions(folder, config.processes)
    if too_long:
        return Outcome(exit_codes={too_long[0]: STOPPED})
    said = (folder / "logs" / LOG).read_text(errors="replace")
    return outcome(code, said, folder, config.processes, ended.order)


class MpiexecFailed(Exception):
    """The message carries the stderr of mpiexec."""


class ProcessDied(Exception):
    """One of the processes died: mpiexec does not say which."""


def outcome(code: int, said: str, folder: Path, processes: int, ended: Sequence[int] = ()) -> Outcome:
    """mpiexec has one exit code for all ranks. Whose it is follows from which rank ended first, where that is known;
    else from the ranks' records, or from mpiexec's output. ``ended``: the ranks in the order in which they ended."""
    named = failed_ranks(said)  # mpiexec.gforker names them all, even where its own exit code is 0
    if code == 0 and not named:
        return Outcome()
    if not (named or rank_files(folder) or BLAMED.search(said)):
        return Outcome(failure=MpiexecFailed(f"mpiexec started nothing: {last_words(said)}"))
    kinds = {
        rank: {row["kind"] for row in rows_so_far(rank_file(folder, rank))} & {"end", "error"}
        for rank in range(processes)
    }
    blamed = blamed_rank(said, folder, processes)
    first = next((rank for rank in ended if "end" not in kinds[rank]), None)
    if first is not None and not kinds[first]:
        # Several may have ended before the kernel's news of the first was read: what mpiexec itself saw counts more.
        killed = [rank for rank, status in (named | blamed).items() if status < 0 and not kinds[rank]]
        first = min(killed, key=lambda rank: (*ended, rank).index(rank), default=first)
        return Outcome(exit_codes={first: (named | blamed).get(first, UNTOLD)})
    if named:
        return Outcome(exit_codes=named)
    if told := [rank for rank in kinds if "error" in kinds[rank]]:
        return Outcome(exit_codes=dict.fromkeys(told, code))
    if blamed:
        return Outcome(exit_codes=blamed)
    if found := BLAMED.search(said):
        code = exit_code(int(found["status"]))
    return Outcome(
        failure=ProcessDied(
            f"{died(code).replace('the process', 'one of the processes', 1)}; mpiexec does not say which rank it was"
        )
    )


def blamed_rank(said: str, folder: Path, processes: int) -> dict[int, int]:
    """The rank that Hydra names and its exit code, if it is one of ours."""
    found = BLAMED.search(said)
    if found is None:
        return {}
    places = {(str(row["pid"]), row["node"]): rank for rank, row in starts(folder, processes).items()}
    rank = places.get((found["pid"], found["node"]))
    return {} if rank is None else {rank: exit_code(int(found["status"]))}


# How Hydra reports the first of its processes that failed.
BLAMED = re.compile(r"PID (?P<pid>\d+) RUNNING AT (?P<node>\S+)\s+=\s+EXIT CODE: (?P<status>\d+)")


def exit_code(status: int) -> int:
    """Tell exit codes from signals, which share one number in Hydra's status. A rank's own exit codes are few."""
    return status if status in (1, 2, NOT_RECORDED) or status not in SIGNALS_BY_NAME.values() else -status


# ``[0]2:Return code = 0, signaled with Killed``: what mpiexec.gforker -exitinfo prints for every rank if one fails.
EXIT_LINE = re.compile(r"^\[\d+\](\d+):Return code = (\d+)(?:, signaled with (.+))?$", re.MULTILINE)


def failed_ranks(said: str) -> dict[int, int]:
    """rank -> exit code of those that failed by themselves, as mpiexec.gforker reports it. It ends the rest."""
    found = {
        int(rank): -SIGNALS_BY_NAME.get(name.strip(), signal.SIGKILL) if name else int(code)
        for rank, code, name in EXIT_LINE.findall(said)
    }
    return {rank: code for rank, code in found.items() if code not in (0, -signal.SIGINT, -signal.SIGQUIT)}


def command(
    config: Resolved,
    folders: Sequence[Path],
    program: str = WORKER,
    hosts: Sequence[str] = (),
    shell: Sequence[str] = (),
) -> list[str]:
    """``hosts``: the host of every place in the config; ``shell``: options for reaching them other than by ssh."""
    rank = rank_words(config.remote_python or sys.executable, program, [folder.absolute() for folder in folders])
    if not hosts:
        return [*find_mpiexec(config.mpiexec, one_host=True), "-n", str(config.processes), *rank]
    slots = [f"{hosts[place]}:{len(list(ranks))}" for place, ranks in groupby(config.places)]
    where = [*shell, "-host", ",".join(slots)]
    return [*find_mpiexec(config.mpiexec), *where, "-n", str(config.processes), *rank]


def text(config: Resolved, folder: Path, program: str = WORKER) -> str:
    """The command that starts the run, to be entered by hand on a machine that can reach the hosts."""
    settings = " ".join(f"{name}={value}" for name, value in rank_environment(config).items())
    (folder / "logs").mkdir(exist_ok=True)
    shell = Ssh(config).shell(folder / "logs") if config.hosts else []
    after = f"# When it has ended: gradsync finish {shlex.quote(str(folder.absolute()))}"
    return f"{settings} {shlex.join(command(config, [folder], program, config.hosts, shell))}\n{after}"


def find_mpiexec(asked: str | None, one_host: bool = False) -> list[str]:
    """The one that was asked for, else the one installed with this Python's MPI, else the one on the path.

    ``one_host``: prefer mpich's gforker, which opens no port at all and reports how each rank has ended.
    Hydra, mpich's ordinary mpiexec, listens on every interface of the host.
    """
    if asked:
        return words_of("--mpiexec", asked)
    for place in (str(Path(sys.executable).parent), None):
        found = shutil.which("mpiexec", path=place)
        forker = shutil.which("mpiexec.gforker", path=str(Path(found).parent)) if found and one_host else None
        if found:
            return [forker, "-exitinfo"] if forker else [found]
    raise InputError("--launcher mpi needs mpiexec: pip install 'gradsync[mpi]', or name yours with --mpiexec.")
