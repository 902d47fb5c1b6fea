"""Processes started by Slurm: as a job of their own, or as a step of the allocation this process is in."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import WORKER, rank_environment, run_starter
from gradsync.launch.slurm_end import ENDS, FORGOTTEN, outcome
from gradsync.launch.slurm_script import LOG, check_allocation, script, srun, step_options
from gradsync.parent import signals_held

POLL_SECONDS = 0.5
ANSWER_SECONDS = 60  # for sbatch, scontrol and scancel: the controller may be busy
GONE_SECONDS = 90  # from scancel until the job is gone: Slurm gives tasks 30 s before it kills them


def check(config: RunConfig, environment: Mapping[str, str] = os.environ) -> None:
    """Whether this is a place from which a job can be made."""
    inside = "SLURM_JOB_ID" in environment
    missing = [name for name in (["srun"] if inside else ["sbatch", "scontrol", "scancel"]) if not shutil.which(name)]
    if missing:
        raise InputError(
            f"--launcher slurm needs {', '.join(missing)}, which is not on the path here. "
            "HINT: run this where you submit jobs to the cluster, or add --print to see the script."
        )
    if inside:
        check_allocation(config, environment)


def launch(config: RunConfig, folders: Sequence[Path], program: str = WORKER) -> Outcome:
    """Start the ranks for these runs and wait. If one fails, Slurm ends the others."""
    folders = [with_logs(folder) for folder in folders]
    if "SLURM_JOB_ID" in os.environ:
        return run_step(config, folders, program)
    with signals_held():  # a job whose number we never learn could not be cancelled
        done = ask("sbatch", "--parsable", text=job_script(config, folders, program))
    if done.returncode:
        words = "; ".join(line.removeprefix("sbatch: error: ") for line in done.stderr.splitlines())
        return Outcome(failure=JobRefused(f"Slurm refuses the job: {words or 'it does not say why'}"))
    job = done.stdout.strip().split(";")[0]  # perhaps followed by the cluster
    try:
        state = follow(job)
    except BaseException:
        cancel(job)
        raise
    return outcome(job, state, folders, config.processes)


class JobRefused(Exception):
    """sbatch has told why."""


def text(config: RunConfig, folder: Path, program: str = WORKER) -> str:
    """What --print shows: the script for sbatch."""
    folder = with_logs(folder)
    after = f"\n# When the job has ended: gradsync finish {shlex.quote(str(folder))}\n"
    return job_script(config, [folder], program) + after


def with_logs(folder: Path) -> Path:
    """Absolute, and with a folder for the job's output, which Slurm does not make."""
    (folder / "logs").mkdir(exist_ok=True)
    return folder.resolve()


def job_script(config: RunConfig, folders: Sequence[Path], program: str) -> str:
    return script(config, folders, program, rank_environment(config), Path.cwd())


def follow(job: str) -> str:
    """Wait for the end of the job and tell how it ended. What it waits for is shown when it changes."""
    shown = None
    while True:
        state, facts = look(job)
        if state in ENDS or state == FORGOTTEN:
            return state
        reason = facts.get("Reason", "None")
        now = {
            "PENDING": f"is waiting in the queue{'' if reason == 'None' else f' ({reason})'}",
            "RUNNING": f"is running on {facts.get('NodeList')}",
        }.get(state, shown)
        if now != shown:
            print(f"Slurm job {job} {now}", file=sys.stderr, flush=True)
            shown = now
        time.sleep(POLL_SECONDS)


def look(job: str) -> tuple[str, dict[str, str]]:
    """The state of the job and whatever else Slurm says of it."""
    done = ask("scontrol", "show", "job", "--oneliner", job)
    if done.returncode:  # a controller that does not answer now may do so later
        return FORGOTTEN if "Invalid job id" in done.stderr else "UNKNOWN", {}
    facts = dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
    return facts["JobState"], facts


def cancel(job: str) -> None:
    """Comes back when the job is gone."""
    ask("scancel", job)
    until = time.monotonic() + GONE_SECONDS
    while time.monotonic() < until:
        state, _ = look(job)
        if state in ENDS or state == FORGOTTEN:
            return
        time.sleep(POLL_SECONDS)


def ask(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, input=text, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"no answer in {ANSWER_SECONDS} s")


def run_step(config: RunConfig, folders: Sequence[Path], program: str) -> Outcome:
    """Inside an allocation srun is enough, and stays until its tasks have ended."""
    words = srun(config, folders, program, step_options(config))
    code = run_starter(words, folders[0] / "logs" / LOG, rank_environment(config), GONE_SECONDS)
    return outcome(os.environ["SLURM_JOB_ID"], "FAILED" if code else "COMPLETED", folders, config.processes)
