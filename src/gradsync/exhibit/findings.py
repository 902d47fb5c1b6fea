"""What runs show, in plain sentences derived from their figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradsync.config.values import counted
from gradsync.exhibit.remarks import doubts, one_run_each, which, within
from gradsync.exhibit.runs.subjects import Subject
from gradsync.exhibit.speed_ups import beyond_ideal, explained
from gradsync.figures.cases import Case
from gradsync.figures.catalogue.of_speed_up import EFFICIENCY, SPEED_UP, SpeedUp, speed_up
from gradsync.figures.catalogue.of_time import HIDDEN_SHARE, PART_SHARE, SAMPLES, STEP, TOKENS
from gradsync.figures.catalogue.of_traffic import SENT
from gradsync.figures.figure import Figure
from gradsync.figures.metrics import IN_TRAINING, metric_figure, metrics_of
from gradsync.figures.noise import is_chance
from gradsync.figures.value import mean_of
from gradsync.ledger.stragglers import sentence
from gradsync.ledger.summary import figures_of
from gradsync.record.summaries import StragglerFound
from gradsync.text import with_article

WORTH_A_WORD = 0.03  # of a step
UNEVEN = 1.5  # one rank's bytes over the others'
MOST_FASTER = 4  # strategies named with their speed-ups


def findings(subjects: Sequence[Subject]) -> list[str]:
    """First what limits the validity of the result, then the result, most important first."""
    found = compared(subjects)
    return [
        *limits(subjects),
        *pace(subjects, found),
        *explained([(item.case, ratio) for item, ratio in found]),
        *spent(subjects),
        *waiting(subjects),
        *uneven(subjects),
        *reached(subjects),
        *ended(subjects),
    ]


def limits(subjects: Sequence[Subject]) -> list[str]:
    """What limits the validity of the result."""
    return [*beyond_ideal([(item.name, ratio) for item, ratio in compared(subjects)]), *doubts(subjects)]


def compared(subjects: Sequence[Subject]) -> list[tuple[Subject, SpeedUp]]:
    """The subjects that have a speed-up, fastest first."""
    cases = [item.case for item in subjects]
    found = [(item, ratio) for item in subjects if (ratio := speed_up(item.case, cases))]
    return sorted(found, key=lambda pair: -(mean_of(pair[1].ratio) or 0.0))


def mean(case: Case, figure: Figure, rank: int | None = None) -> float:
    """Over the repeats, as in the tables; 0 where there is none."""
    return mean_of(case.so_far(figure, rank)) or 0.0


def pace(subjects: Sequence[Subject], found: Sequence[tuple[Subject, SpeedUp]]) -> Iterator[str]:
    """The throughput, relative to one process where there is a run of it on the same work."""
    if found:
        (first, best), *rest = found[:MOST_FASTER]
        text = (
            f"{first.name} has {times(best)} the throughput of one process, "
            f"at {EFFICIENCY.text(best.efficiency)} of the ideal ({STEP.text(first.case.so_far(STEP))} s a step)"
        )
        others = ", ".join(f"{item.name} {times(ratio)}" for item, ratio in rest)
        yield f"{text}; {others}." if others else f"{text}."
        yield from one_run_each([case for _, ratio in found for case in (ratio.case, ratio.base)])
    elif fastest := quickest(subjects):
        slower = [item for item in subjects if item.case.completed and item is not fastest]
        rivals = [item for item in slower if is_chance(item.case, fastest.case, SAMPLES)]
        pieces, figure = ("tokens", TOKENS) if fastest.figures.positions else ("samples", SAMPLES)
        step, rate = (each.text(fastest.case.so_far(each)) for each in (STEP, figure))
        if rivals:
            names = f"{which([item.name for item in rivals], len(subjects))} {'is' if len(rivals) == 1 else 'are'}"
            yield (
                f"It is undecided which is the fastest: {fastest.name} takes {step} s a step ({rate} {pieces} per "
                f"second), and {names} within the uncertainty of that."
            )
        else:
            told = " is the fastest" if slower else ""
            yield f"{fastest.name}{told}: {step} s a step, {rate} {pieces} per second."
        yield from one_run_each([item.case for item in (fastest, *slower)]) if slower else ()


def times(ratio: SpeedUp) -> str:
    return f"{SPEED_UP.text(ratio.ratio)}×"


def quickest(subjects: Sequence[Subject]) -> Subject | None:
    done = [item for item in subjects if item.case.completed] or subjects
    timed = [item for item in done if mean(item.case, SAMPLES) and mean(item.case, STEP)]
    return max(timed, key=lambda item: mean(item.case, SAMPLES), default=None)


def spent(subjects: Sequence[Subject]) -> Iterator[str]:
    """Where the time of a step goes: in the fastest run with several workers, else in the fastest of all."""
    measured = [item for item in subjects if item.measured]
    shared = [item for item in measured if len(item.figures.ranks) > 1]
    item = quickest(shared or measured)
    if item is None:
        return
    names = NAMES | ({"wait": "waiting for a server"} if item.figures.updates else {})
    shares = dict.fromkeys(names.values(), 0.0)
    for part, figure in PART_SHARE.items():
        shares[names[part]] += mean(item.case, figure)
    told = [
        f"{PART_SHARE['wire'].text(share)} {name}"
        for name, share in sorted(shares.items(), key=lambda pair: -pair[1])
        if share >= WORTH_A_WORD
    ]
    behind = mean(item.case, HIDDEN_SHARE)
    beside = (
        f"; communication worth {HIDDEN_SHARE.text(behind)} of it is hidden behind computation"
        if behind >= WORTH_A_WORD
        else ""
    )
    if told:
        yield f"A step of {item.name} is {', '.join(told)}{beside}."


NAMES = {
    "forward": "forward and backward",
    "backward": "forward and backward",
    "data": "loading batches",
    "copy": "copying batches to the device",
    "wait": "waiting for the last rank",
    "wire": "moving bytes",
    "optimizer": "the optimizer",
    "other": "everything else",
}


def waiting(subjects: Sequence[Subject]) -> Iterator[str]:
    """The slow rank of each run; of repeats, each rank that was slow in one of them, and in how many."""
    for item in subjects:
        slow: dict[int, list[StragglerFound]] = {}
        for run in item.case.runs:
            if found := figures_of(run).straggler:
                slow.setdefault(found.rank, []).append(found)
        repeats = len(item.case.runs)
        for each in slow.values():
            where = f", in {len(each)} of {repeats} runs" if repeats > 1 else ""
            yield f"{item.name}{where}: {sentence(each[0])}."


def uneven(subjects: Sequence[Subject]) -> Iterator[str]:
    for item in subjects:
        sent = [mean(item.case, SENT, rank.rank) for rank in item.figures.ranks]
        if len(sent) < 3 or not all(sent):
            continue
        most = max(sent)
        others = (sum(sent) - most) / (len(sent) - 1)
        if most > UNEVEN * others:
            yield f"{item.name}: rank {sent.index(most)} sends {most / others:.1f}× the average of the others."


def reached(subjects: Sequence[Subject]) -> Iterator[str]:
    for metric in metrics_of(item.figures for item in subjects):
        yield from reached_in(subjects, metric_figure(metric))


def reached_in(subjects: Sequence[Subject], metric: Figure) -> Iterator[str]:
    tested = [(value, item) for item in subjects if (value := mean_of(item.case.so_far(metric))) is not None]
    if not tested:
        return
    (lowest, lower), (highest, higher) = min(tested, key=by_value), max(tested, key=by_value)
    low, high = metric.text(lowest), metric.text(highest)
    where = "" if metric.name.startswith(IN_TRAINING) else " on the test set"
    best = high if metric.form.endswith("%") else f"{with_article(metric.title)} of {high}"
    if len(tested) == 1:
        yield f"{higher.name} reaches {best}{where}."
    elif low == high:
        yield f"All {len(tested)} reach {best}{where}."
    else:
        title = metric.title if metric.name.startswith(IN_TRAINING) else f"test {metric.title}"
        apart = within(lower.case, higher.case, metric)
        yield f"{title.capitalize()} lies between {low} ({lower.name}) and {high} ({higher.name}){apart}."


def by_value(pair: tuple[float, Subject]) -> float:
    return pair[0]


def ended(subjects: Sequence[Subject]) -> Iterator[str]:
    for status in ("failed", "unfinished"):
        names = [item.name for item in subjects if item.case.status == status]
        if names:
            yield f"{counted(len(names), 'run')} {status}: {', '.join(names)}. Figures up to that point are shown."
