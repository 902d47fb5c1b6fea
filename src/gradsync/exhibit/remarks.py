"""What a reader must know before believing the figures: failures, lost workers, too few cores, later steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gradsync.config.values import counted
from gradsync.exhibit.form import Section
from gradsync.exhibit.runs.subjects import Subject
from gradsync.exhibit.runs.table import window_text
from gradsync.figures.cases import Case
from gradsync.figures.figure import Figure
from gradsync.figures.noise import is_chance, is_repeated
from gradsync.figures.place import busy_threads, cores_of_host, cores_wanted, kind_of_device
from gradsync.figures.value import percent
from gradsync.ledger.summary import differs_later, figures_of
from gradsync.record import Recorded, Run, log_file
from gradsync.text import printable

LACKING = 0.1  # of the time: less than this is noise on any host
DISTURBED = 0.2  # the same where a machine is not divided into nodes: a rank's own threads take turns, too
MOST_NAMED = 4  # runs; of more, it is said how many they are

ONE_RUN_EACH = (
    "One run each: ± covers only the variation within a run, and another run may differ by more. "
    "HINT: --repeat 3 measures by how much."
)


def doubts(subjects: Sequence[Subject]) -> list[str]:
    """Warnings about the runs, most serious first: one for each kind of doubt, whatever the number of runs."""
    return [
        *too_many_threads(subjects),
        *busy_machine(subjects),
        *host_limits({item.name: item.case.runs for item in subjects}),
        *later_steps(subjects),
        *(text for item in subjects for run in item.case.runs for text in lost_workers(run, item.name)),
        *unseen(subjects),
    ]


def one_run_each(found: Sequence[Case]) -> list[str]:
    """What to say beside a comparison of these cases."""
    return [] if is_repeated(found) else [ONE_RUN_EACH]


def within(one: Case, other: Case, figure: Figure) -> str:
    """What to say after a difference that decides nothing."""
    return ", a difference within the uncertainty" if is_chance(one, other, figure) else ""


def which(names: Sequence[str], whole: int) -> str:
    """The names of some of all runs, or how many these are."""
    if len(names) <= MOST_NAMED:
        return listed(names)
    return f"All {whole} runs" if len(names) == whole else f"{len(names)} of {whole} runs"


def amounts(found: Mapping[str, float], whole: int, signed: bool = False) -> str:
    """The same with a share for each, or the least and the most of them."""
    if len(found) <= MOST_NAMED:
        colon = ":" if any("," in name for name in found) else ""
        return listed([f"{name}{colon} {percent(value, signed=signed)}" for name, value in found.items()])
    least, most = (percent(edge(found.values()), signed=signed) for edge in (min, max))
    return f"{which(list(found), whole).lower()}, {f'{least} to {most}' if least != most else least}"


def listed(names: Iterable[str]) -> str:
    """Names may have commas themselves."""
    found = list(names)
    return ("; " if any("," in name for name in found) else ", ").join(found)


def too_many_threads(subjects: Sequence[Subject]) -> Iterator[str]:
    """More compute threads than cores to run them on, which slows everything down."""
    named: dict[tuple[int, int], list[str]] = {}
    for item in subjects:
        threads, cores = busy_threads(item.figures), cores_of_host(item.figures)
        wanted = cores_wanted(item.figures)
        if threads and wanted and cores and wanted > cores and kind_of_device(item.figures.device) != "cuda":
            named.setdefault((threads, cores), []).append(item.name)
    for (threads, cores), names in named.items():
        yield crowded(which(names, len(subjects)), threads, cores)


def crowded(names: str, threads: int, cores: int) -> str:
    return (
        f"{names}: {threads} compute threads share {counted(cores, 'core')}. This result is limited "
        "by the cores of the machine."
    )


def busy_machine(subjects: Sequence[Subject]) -> Iterator[str]:
    """Other processes had the cores for much of the time, although there are enough of them for the run."""
    enough = [item for item in subjects if not item.figures.cluster and not list(too_many_threads([item]))]
    lacked = {item.name: max(map(without_core, item.case.runs)) for item in enough}
    disturbed = {name: share for name, share in lacked.items() if share >= DISTURBED}
    if disturbed:
        yield (
            "Runnable but not scheduled, as other processes had the cores: "
            f"{amounts(disturbed, len(subjects))} of the time. HINT: measure again with nothing else "
            "running."
        )


def without_core(run: Run) -> float:
    """Share of the time, of the rank for which it was the most."""
    return max((rank.run_delay_percent or 0.0 for rank in figures_of(run).ranks), default=0.0) / 100


def host_limits(named: Mapping[str, Sequence[Recorded]]) -> Iterator[str]:
    """When nodes of an emulated cluster needed more cores than the host has, the result is about the host."""
    short = {name: lacking for name, runs in named.items() if (lacking := nodes_lacking(runs))}
    if not short:
        return
    if len(short) == 1:
        ((name, nodes),) = short.items()
        begin = f"{name}: runnable"
        each = ", ".join(f"{node} {percent(share)}" for node, share in sorted(nodes.items()))
    else:
        worst = {name: max(nodes.values()) for name, nodes in short.items()}
        begin, each = "Runnable", amounts(worst, len(named))
    yield (
        f"{begin} but not scheduled for lack of a core: {each} of the time. This result is limited by the host's "
        "cores, not by the network alone."
    )


def nodes_lacking(runs: Sequence[Recorded]) -> dict[str, float]:
    """Emulated nodes, and the share of the time they lacked a core: the most of all repeats."""
    found: dict[str, float] = {}
    for run in runs:
        cluster = run.summary.cluster if run.summary else None
        for node, delay in (cluster.run_delay_percent if cluster else {}).items():
            if delay / 100 >= LACKING:
                found[node] = max(delay / 100, found.get(node, 0.0))
    return found


def later_steps(subjects: Sequence[Subject]) -> Iterator[str]:
    """Runs that went on at another pace than in the window."""
    found = {item.name: change for item in subjects if (change := later_change(item))}
    hint = "HINT: --window all, or last:100."
    if len(found) == 1:
        ((name, change),) = found.items()
        figures = next(item.figures for item in subjects if item.name == name)
        assert figures.later
        yield (
            f"{name}: the {counted(figures.later.steps, 'step')} after the window ({window_text(figures)}) take "
            f"{percent(abs(change))} {'longer' if change > 0 else 'less'}, which is beyond the spread within it. "
            f"{hint}"
        )
    elif found:
        yield (
            "The steps after the window take longer or less than those in it, by more than the spread within it: "
            f"{amounts(found, len(subjects), signed=True)}. {hint}"
        )


def later_change(item: Subject) -> float:
    """The time of a step after the window over that within it, less 1; 0 where it is within the spread."""
    figures = item.figures
    if not (figures.later and figures.seconds_per_step and differs_later(figures)):
        return 0.0
    return figures.later.seconds_per_step / figures.seconds_per_step - 1


def lost_workers(run: Run, name: str) -> Iterator[str]:
    """The workers that a run lost and continued without."""
    for item in run.summary.lost if run.summary else ():
        yield (
            f"{name}: worker {item.rank} was lost after {counted(item.steps, 'step')} ({item.message}); "
            "the others continued."
        )


def unseen(subjects: Sequence[Subject]) -> Iterator[str]:
    """What could not be seen of scripts that were watched."""
    named: dict[str, list[str]] = {}
    for item in subjects:
        for sentence in item.figures.remarks:
            named.setdefault(sentence, []).append(item.name)
    for sentence, names in named.items():
        yield f"{which(names, len(subjects))}: {sentence}."


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
