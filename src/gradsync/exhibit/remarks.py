"""What a reader must know before believing the figures: failures, lost workers, too few cores, later steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradsync.config.values import counted
from gradsync.exhibit.form import Section
from gradsync.exhibit.runs.subjects import Subject
from gradsync.exhibit.runs.table import window_text
from gradsync.figures.catalogue.of_host import WITHOUT_CORE
from gradsync.figures.place import busy_threads, cores_of_host, cores_wanted, kind_of_device
from gradsync.figures.value import mean_of, percent
from gradsync.ledger.summary import differs_later
from gradsync.record import Recorded, Run, log_file
from gradsync.text import printable

LACKING = 0.1  # of the time: less than this is noise on any host
DISTURBED = 0.2  # the same where a machine is not divided into nodes: a rank's own threads take turns, too


def doubts(subjects: Sequence[Subject]) -> list[str]:
    """Warnings about the runs, most serious first."""
    return [
        *too_many_threads(subjects),
        *busy_machine(subjects),
        *(text for item in subjects for text in host_limits(item.run, item.name)),
        *(text for item in subjects for text in later_steps(item)),
        *(text for item in subjects for run in item.case.runs for text in lost_workers(run, item.name)),
        *(text for item in subjects for text in unseen(item)),
    ]


def too_many_threads(subjects: Sequence[Subject]) -> Iterator[str]:
    """More compute threads than cores to run them on, which slows everything down."""
    named: dict[tuple[int, int], list[str]] = {}
    for item in subjects:
        threads, cores = busy_threads(item.figures), cores_of_host(item.figures)
        wanted = cores_wanted(item.figures)
        if threads and wanted and cores and wanted > cores and kind_of_device(item.figures.device) != "cuda":
            named.setdefault((threads, cores), []).append(item.name)
    for (threads, cores), names in named.items():
        yield (
            f"{', '.join(names)}: {threads} compute threads share {counted(cores, 'core')}. This result is limited "
            "by the cores of the machine."
        )


def busy_machine(subjects: Sequence[Subject]) -> Iterator[str]:
    """Other processes had the cores for much of the time, although there are enough of them for the run."""
    enough = [item for item in subjects if not item.figures.cluster and not list(too_many_threads([item]))]
    lacked = {item.name: mean_of(item.case.so_far(WITHOUT_CORE)) or 0.0 for item in enough}
    disturbed = ", ".join(
        f"{name} {WITHOUT_CORE.text(share)}" for name, share in lacked.items() if share >= DISTURBED
    )
    if disturbed:
        yield (
            f"Runnable but not scheduled, as other processes had the cores: {disturbed} of the time. HINT: measure "
            "again with nothing else running."
        )


def host_limits(run: Recorded, name: str) -> Iterator[str]:
    """When nodes of an emulated cluster needed more cores than the host has, the result is about the host."""
    cluster = run.summary.cluster if run.summary else None
    lacked = {node: delay / 100 for node, delay in (cluster.run_delay_percent if cluster else {}).items()}
    short = {node: share for node, share in lacked.items() if share >= LACKING}
    if short:
        each = ", ".join(f"{node} {WITHOUT_CORE.text(share)}" for node, share in sorted(short.items()))
        yield (
            f"{name}: runnable but not scheduled for lack of a core: {each} of the time. This result is limited by "
            "the host's cores, not by the network alone."
        )


def later_steps(item: Subject) -> Iterator[str]:
    figures = item.figures
    if figures.later and figures.seconds_per_step and differs_later(figures):
        change = figures.later.seconds_per_step / figures.seconds_per_step - 1
        yield (
            f"{item.name}: the {counted(figures.later.steps, 'step')} after the window ({window_text(figures)}) take "
            f"{percent(abs(change))} {'longer' if change > 0 else 'less'}, which is beyond the spread within it. "
            "HINT: --window all, or last:100."
        )


def lost_workers(run: Run, name: str) -> Iterator[str]:
    """The workers that a run lost and continued without."""
    for item in run.summary.lost if run.summary else ():
        yield (
            f"{name}: worker {item.rank} was lost after {counted(item.steps, 'step')} ({item.message}); "
            "the others continued."
        )


def unseen(item: Subject) -> Iterator[str]:
    """What could not be seen of a script that was watched."""
    for sentence in item.figures.remarks:
        yield f"{item.name}: {sentence}."


def not_completed(runs: Sequence[Recorded], title: str = "Runs that were not completed") -> list[Section]:
    """A short last section with a line for each run that was not completed, if there is one."""
    told = failures(runs)
    return [Section(title, (), told, failures=True)] if told else []


def failures(runs: Sequence[Recorded]) -> list[str]:
    return [failure(run) for run in runs if run.status != "completed"]


def failure(run: Recorded) -> str:
    """What went wrong, where, and which file has the details."""
    if run.status == "unfinished":
        return f"{run.name}: unfinished: it is still running, or was killed before it could write its summary."
    assert run.error
    where = f" on rank {run.error.rank}{role(run)}" if run.error.rank is not None else ""
    log = log_file(run.folder, run.error.rank or 0, "err")
    told = f" Its log: {printable(log)}" if log.exists() and log.stat().st_size else ""
    message = run.error.message.rstrip(".")
    return f"{run.name}: failed{where}: {run.error.type}: {message}.{told}"


def role(run: Recorded) -> str:
    servers = run.summary.servers if isinstance(run, Run) and run.summary else []
    return ", a parameter server" if run.error and run.error.rank in {server.rank for server in servers} else ""
