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

from gradsync.config import Resolved
from gradsync.errors import InputError
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import WORKER, rank_environment, run_starter
from gradsync.launch.slurm.end import ENDS, FORGOTTEN, outcome
from gradsync.launch.slurm.script import LOG, check_allocation, script, srun, step_options
from gradsync.parent import signals_held

POLL_SECONDS = 0.5
ANSWER_SECONDS = 60  # for sbatch, scontrol and scancel: the controller may be busy
GONE_SECONDS = 90  # from scancel until the job is gone: Slurm gives tasks 30 s before it kills them


def check(config: Resolved, environment: Mapping[str, str] = os.environ) -> None:
    """Refuse a place from which no job can be started."""
    inside = "SLURM_JOB_ID" in environment
    missing = [name for name in (["srun"] if inside else ["sbatch", "scontrol", "scancel"]) if not shutil.which(name)]
    if missing:
        raise InputError(
            f"--launcher slurm cannot find {' or '.join(missing)} on PATH. "
            "HINT: run this where you submit jobs to the cluster, or add --print to see the script."
        )
    if inside:
        check_allocation(config, environment)


def launch(config: Resolved, folders: Sequence[Path], program: str = WORKER) -> Outcome:
    """Start the ranks for these runs and wait. If one fails, Slurm ends the others."""
    folders = [with_logs(folder) for folder in folders]
    if "SLURM_JOB_ID" in os.environ:
        return run_step(config, folders, program)
    with signals_held():  # a job whose number we never learn could not be cancelled
        done = ask("sbatch", "--parsable", text=job_script(config, folders, program))
    if done.returncode:
        words = "; ".join(line.removeprefix("sbatch: error: ") for line in done.stderr.splitlines())
        return Outcome(failure=JobRefused(f"Slurm refuses the job: {words or 'it does not say why'}"))
    job = done.stdout.strip().split(";")[0]  # the name of the cluster may follow
    try:
        state = follow(job)
    except BaseException:
        cancel(job)
        raise
    return outcome(job, state, folders, config.processes)


class JobRefused(Exception):
    """The message carries the stderr of sbatch."""


def text(config: Resolved, folder: Path, program: str = WORKER) -> str:
    """What --print shows: the script for sbatch."""
    folder = with_logs(folder)
    after = f"\n# When the job has ended: gradsync finish {shlex.quote(str(folder))}\n"
    return job_script(config, [folder], program) + after


def with_logs(folder: Path) -> Path:
    """The folder's absolute path, with a folder for the job's output in it, which Slurm does not create."""
    (folder / "logs").mkdir(exist_ok=True)
    return folder.resolve()


def job_script(config: Resolved, folders: Sequence[Path], program: str) -> str:
    return script(config, folders, program, rank_environment(config), Path.cwd())


def follow(job: str) -> str:
    """Wait for the end of the job and return its final state. Changes of its state until then are printed."""
    shown = None
    while True:
        state, facts = job_state(job)
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


def job_state(job: str) -> tuple[str, dict[str, str]]:
    """The state of the job and whatever else Slurm says about it."""
    done = ask("scontrol", "show", "job", "--oneliner", job)
    if done.returncode:  # a controller that does not answer now may do so later
        return FORGOTTEN if "Invalid job id" in done.stderr else "UNKNOWN", {}
    facts = dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
    return facts["JobState"], facts


def cancel(job: str) -> None:
    """Cancel the job, and return when it is gone."""
    ask("scancel", job)
    until = time.monotonic() + GONE_SECONDS
    while time.monotonic() < until:
        state, _ = job_state(job)
        if state in ENDS or state == FORGOTTEN:
            return
        time.sleep(POLL_SECONDS)


def ask(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, input=text, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"no answer in {ANSWER_SECONDS} s")


def run_step(config: Resolved, folders: Sequence[Path], program: str) -> Outcome:
    """Inside an allocation, srun is enough: it returns when its tasks have ended."""
    words = srun(config, folders, program, step_options(config))
    code = run_starter(words, folders[0] / "logs" / LOG, rank_environment(config), GONE_SECONDS)
    return outcome(os.environ["SLURM_JOB_ID"], "FAILED" if code else "COMPLETED", folders, config.processes)
