"""The sbatch script and the srun command, as text. Settings they cannot express are refused."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

from gradsync.config import Resolved
from gradsync.config.values import counted, one_line
from gradsync.errors import InputError
from gradsync.launch.processes import rank_words
from gradsync.record import rank_file

LOG = "slurm.log"

WITH_FLAGS = ("nodes", "ntasks-per-node", "partition", "account", "time")
OURS = ("ntasks", "cpus-per-task", "job-name", "chdir", "output")


def script(
    config: Resolved, folders: Sequence[Path], program: str, environment: Mapping[str, str], start_in: Path
) -> str:
    """The whole sbatch script. The folders are absolute: it can be submitted from anywhere."""
    first = folders[0]
    options = [
        f"--job-name=gradsync-{re.sub(r'[^A-Za-z0-9._-]+', '-', first.name)}",
        *job_options(config),
        "--no-requeue",  # after a requeue, ranks would append a second record to the first
        f"--chdir={start_in}",
        f"--output={str(first / 'logs' / LOG).replace('%', '%%')}",
    ]
    command = srun(config, folders, program)
    for words in (*options, *command):  # after a line break, the rest of an #SBATCH line would be a command
        one_line("the text for the Slurm script", words)
    record = shlex.quote(str(rank_file(first, 0)))
    return "\n".join(
        [
            "#!/bin/bash",
            *(f"#SBATCH {shlex.quote(option)}" for option in options),
            "",
            *(f'export {name}="${{{name}:-{value}}}"' for name, value in environment.items()),
            f'if [ -e {record} ]; then echo "this run has been made already" >&2; exit 1; fi',
            "",
            shlex.join(command),
            "",
        ]
    )


def job_options(config: Resolved) -> tuple[str, ...]:
    """The options of the job; runs for which they are the same can share one."""
    own = {"partition": config.partition, "account": config.account, "time": config.time}
    return (
        *step_options(config),
        *(f"--{name}={value}" for name, value in own.items() if value),
        *(f"--{option.removeprefix('--')}" for option in config.sbatch),
    )


def step_options(config: Resolved) -> tuple[str, ...]:
    """Slurm puts the ranks on the nodes in order, servers last."""
    return (
        f"--nodes={nodes_needed(config)}",
        f"--ntasks={config.processes}",
        f"--ntasks-per-node={tasks_on_a_node(config)}",
        f"--cpus-per-task={config.threads}",
    )


def tasks_on_a_node(config: Resolved) -> int:
    """The most tasks on any node; with servers, they may exceed the workers per node."""
    assert config.nodes  # Slurm always has nodes
    return max(min(config.workers_per_node, config.processes), ceil(config.processes / config.nodes))


def nodes_needed(config: Resolved) -> int:
    return ceil(config.processes / tasks_on_a_node(config))


def srun(config: Resolved, folders: Sequence[Path], program: str, options: Sequence[str] = ()) -> list[str]:
    """In a batch script, srun inherits all options of the job except --cpus-per-task (since Slurm 22.05)."""
    options = options or [f"--cpus-per-task={config.threads}"]
    mpi = ["--mpi=pmi2"] if config.transport == "mpi" else []
    rank = rank_words(config.remote_python or sys.executable, program, folders)
    return ["srun", "--kill-on-bad-exit=1", *options, *mpi, *rank]


def check_options(config: Resolved) -> None:
    for option in config.sbatch:
        words = option.removeprefix("--")
        name = words.partition("=")[0]
        if name in (*WITH_FLAGS, *OURS):
            raise InputError(f"--sbatch {option}: {f'use --{name}' if name in WITH_FLAGS else 'gradsync sets it'}.")
        if not re.fullmatch(r"[a-z][a-z0-9-]*(=.*)?", words):
            raise InputError(f"--sbatch {option!r}: it must read name=value or name, for instance gres=gpu:4.")


def check_allocation(config: Resolved, environment: Mapping[str, str]) -> None:
    """Whether the run fits into the allocation this process is in."""
    job, tasks, nodes = (environment.get(f"SLURM_{name}", "") for name in ("JOB_ID", "NTASKS", "JOB_NUM_NODES"))
    given = [f"--{name}" for name in ("partition", "account", "time", "sbatch") if getattr(config, name)]
    if given:
        raise InputError(
            f"you set {', '.join(given)} for a new Slurm job, but are inside the allocation {job}. "
            "HINT: leave that out, or leave the allocation."
        )
    if not config.in_one_process and tasks.isdecimal() and int(tasks) != config.processes:
        raise InputError(
            f"the run has {counted(config.processes, 'rank')}, but SLURM_NTASKS of the allocation {job} you are in "
            f"is {tasks}. HINT: use as many workers as tasks, or an allocation with --ntasks={config.processes}."
        )
    needed = nodes_needed(config)
    if nodes.isdecimal() and int(nodes) < needed:
        raise InputError(
            f"the run is for {needed} nodes, but the allocation {job} you are in has {nodes}. "
            f"HINT: use --nodes {nodes}, or an allocation with --nodes={needed}."
        )
