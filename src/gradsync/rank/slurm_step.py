"""What a task of a Slurm step can find out: how many tasks share its node, and where all of them meet."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping

from gradsync.errors import InputError

TASKS_HERE = "SLURM_STEP_TASKS_PER_NODE at SLURM_NODEID"  # not a variable, but derived from those
SPECIAL_STEPS = 0xFFFFFFF0  # ids from here on: the batch script itself, an interactive shell and the like
STEP_PORTS = range(10_000, 30_000)  # below the ephemeral ports of the kernel
STEPS_PER_JOB = 16
SCONTROL_SECONDS = 30


def is_task(environment: Mapping[str, str]) -> bool:
    """Whether srun has started this process. A batch script has SLURM_PROCID too, but is no task of a step."""
    step = environment.get("SLURM_STEP_ID", "")
    return step.isdecimal() and int(step) < SPECIAL_STEPS


def with_tasks_here(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with TASKS_HERE; without SLURM_PROCID if this is not a task of a step."""
    found = dict(environment)
    if not is_task(environment):
        found.pop("SLURM_PROCID", None)
        return found
    text = environment.get("SLURM_STEP_TASKS_PER_NODE") or environment.get("SLURM_TASKS_PER_NODE")
    if text and "SLURM_NODEID" in environment:
        counts, node = tasks_per_node(text), int(environment["SLURM_NODEID"])
        if node >= len(counts):
            raise InputError(f"SLURM_NODEID is {node}, but Slurm's tasks per node are {text!r}.")
        found[TASKS_HERE] = str(counts[node])
    return found


def tasks_per_node(text: str) -> list[int]:
    """``2(x3),1`` is [2, 2, 2, 1]."""
    counts = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if not found:
            raise InputError(f"Slurm's tasks per node are {text!r}: they must read like 2(x3),1.")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def meeting_place(environment: Mapping[str, str]) -> dict[str, str]:
    """MASTER_ADDR and MASTER_PORT, the same for every task of the step: they meet on its first node."""
    nodes = environment.get("SLURM_STEP_NODELIST") or environment["SLURM_JOB_NODELIST"]
    first = scontrol("show", "hostnames", nodes).split()[0]
    address = re.search(r"\bNodeAddr=(\S+)", scontrol("show", "node", first))
    return {
        "MASTER_ADDR": address[1] if address else first,
        "MASTER_PORT": str(port(int(environment["SLURM_JOB_ID"]), int(environment["SLURM_STEP_ID"]))),
    }


def port(job: int, step: int) -> int:
    """A port that other steps on the same nodes are unlikely to use."""
    return STEP_PORTS[(job * STEPS_PER_JOB + step) % len(STEP_PORTS)]


def scontrol(*words: str) -> str:
    try:
        done = subprocess.run(["scontrol", *words], capture_output=True, text=True, timeout=SCONTROL_SECONDS)
        problem = done.stderr.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        done, problem = None, str(error)
    if done is None or done.returncode or not done.stdout.strip():
        raise InputError(
            f"cannot find out where the tasks meet: scontrol {' '.join(words)} failed ({problem or 'no answer'}). "
            "HINT: set MASTER_ADDR and MASTER_PORT before srun."
        )
    return done.stdout
