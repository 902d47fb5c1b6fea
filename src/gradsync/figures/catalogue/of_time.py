"""Figures of time: steps, epochs, the parts of the ledger."""

from __future__ import annotations

import statistics

from gradsync.figures.figure import At, Figure, Formula
from gradsync.ledger.parts import HIDDEN
from gradsync.ledger.summary import learned
from gradsync.record import RunSummary, rank_file, read_rank
from gradsync.record.summaries import PARTS

COMPUTE = ("copy", "forward", "backward", "optimizer")
COMMUNICATION = ("wait", "wire")
REST = ("data", "other")


def seconds_per_step(at: At) -> float | None:
    return at.of_rank.seconds_per_step if at.rank is not None else at.figures.seconds_per_step


def spread_of_steps(at: At) -> float | None:
    return at.figures.seconds_per_step_spread if at.rank is None else None


def is_projected(figures: RunSummary) -> bool:
    """Whether the run ended within its first epoch: the epoch time is then estimated from the step time."""
    return bool(figures.steps_per_epoch) and not figures.epoch_seconds


def epoch_seconds(at: At) -> float | None:
    """The last whole epoch, which has the fewest first-time costs; else as many steps at the measured pace."""
    figures = at.figures
    if figures.epoch_seconds:
        return figures.epoch_seconds[-1]
    if figures.seconds_per_step is None or not figures.steps_per_epoch:
        return None
    return figures.seconds_per_step * figures.steps_per_epoch


def epoch_number(at: At) -> float | None:
    return nth(at.figures.epoch_seconds, at)


def nth(values: list[float] | list[float | None], at: At) -> float | None:
    index = int(at.x or 0) - 1
    return values[index] if 0 <= index < len(values) else None


def epoch_without_data(at: At) -> float | None:
    """The last whole epoch without the time spent loading batches, by the slowest worker."""
    figures = at.figures
    steps = figures.steps_per_epoch
    ranks = (read_rank(rank_file(at.run.folder, rank.rank)) for rank in figures.ranks)
    if (seconds := learned.epoch_without_data(ranks, steps)) is not None:
        return seconds
    if not figures.ledger or not steps or figures.seconds_per_step is None:
        return None
    return (figures.seconds_per_step - figures.ledger["data"]) * steps


def train_seconds(at: At) -> float | None:
    found = [rank.finish_seconds for rank in at.figures.ranks]
    return max((value for value in found if value is not None), default=None)


def samples_per_second(at: At) -> float | None:
    return at.figures.samples_per_second


def deviation_of_samples(at: At) -> float | None:
    """The same in percent as that of a step."""
    figures = at.figures
    if not (figures.samples_per_second and figures.seconds_per_step and figures.seconds_per_step_spread):
        return None
    return figures.samples_per_second * figures.seconds_per_step_spread / figures.seconds_per_step


def of_ledger(*parts: str) -> Formula:
    """Seconds of a step."""

    def of(at: At) -> float | None:
        ledger = at.figures.ledger if at.rank is None else at.of_rank.ledger
        return sum(ledger[part] for part in parts) if ledger else None

    return of


def hidden(at: At) -> float | None:
    return getattr(at.figures if at.rank is None else at.of_rank, HIDDEN)


def tokens_per_second(at: At) -> float | None:
    return times_tokens(samples_per_second(at), at)


def deviation_of_tokens(at: At) -> float | None:
    return times_tokens(deviation_of_samples(at), at)


def times_tokens(samples: float | None, at: At) -> float | None:
    """None where a sample is no sequence."""
    positions = at.figures.positions
    return samples * positions if samples is not None and positions else None


def share(of: Formula) -> Formula:
    """Of the time of a step, which is the sum of all parts."""

    def found(at: At) -> float | None:
        seconds, whole = of(at), of_ledger(*PARTS)(at)
        return seconds / whole if seconds is not None and whole else None

    return found


def of_epoch(*parts: str) -> Formula:
    """Seconds of an epoch."""

    def of(at: At) -> float | None:
        step, steps = of_ledger(*parts)(at), at.figures.steps_per_epoch
        return step * steps if step is not None and steps else None

    return of


STEP = Figure(
    "step",
    "step",
    seconds_per_step,
    "mean time of a step over all ranks and the steps of the window",
    "s",
    obvious=True,
    deviation=spread_of_steps,
    of_steps=True,
    in_full="time of a step",
)
SAMPLES = Figure(
    "samples",
    "throughput",
    samples_per_second,
    "samples per second of all workers together, in the window",
    "1/s",
    ",.0f",
    obvious=True,
    deviation=deviation_of_samples,
    of_steps=True,
    in_full="samples per second",
)
TOKENS = Figure(
    "tokens",
    "tokens",
    tokens_per_second,
    "tokens per second of all workers together, in the window",
    "1/s",
    ",.0f",
    obvious=True,
    deviation=deviation_of_tokens,
    of_steps=True,
)
EPOCH = Figure(
    "epoch",
    "epoch",
    epoch_seconds,
    "the last whole epoch, without testing, by the slowest rank",
    "s",
    of_steps=True,
    in_full="time of an epoch",
)
EPOCH_AT = Figure("epoch-at", "time of the epoch", epoch_number, "each whole epoch, without testing", "s")
EPOCH_WITHOUT_DATA = Figure(
    "epoch-without-data",
    "epoch without data loading",
    epoch_without_data,
    "an epoch without the time spent loading batches",
    "s",
    of_steps=True,
)
READ = Figure(
    "read",
    "reading",
    lambda at: at.figures.read_seconds,
    "until every rank had its part of the data set",
    "s",
    ".2f",
    in_full="reading the data",
)
TRAIN = Figure(
    "train",
    "training",
    train_seconds,
    "from the first step of any worker to the last step of any, including testing in between, without start-up",
    "s",
    sums_steps=True,
    of_run=True,
    in_full="time of training",
)
TOTAL = Figure(
    "total",
    "total",
    lambda at: at.figures.total_seconds if at.run.summary else None,
    "from starting the processes until the last one had ended",
    "s",
    ".1f",
    of_run=True,
    in_full="time of the whole program",
)
FINISH = Figure(
    "finish",
    "finished",
    lambda at: at.of_rank.finish_seconds,
    "last step of the worker, counted from the first step of any worker",
    "s",
    ".2f",
    sums_steps=True,
    of_run=True,
)
MEANINGS = {
    "data": "loading the batch",
    "copy": "copying the batch to the device",
    "forward": "forward pass",
    "backward": "backward pass, without waiting for messages at its end",
    "wait": "until the last rank has arrived at a collective",
    "wire": "from then to the end of the collective",
    "optimizer": "the update",
    "other": "everything else in a step",
}
PART_STEP = {
    part: Figure(f"{part}-step", part, of_ledger(part), meaning, "ms", of_steps=True)
    for part, meaning in MEANINGS.items()
}
"""Part of the ledger -> its time in a step."""

PART_SHARE = {
    part: Figure(
        f"{part}-share",
        f"{part} share",
        share(of_ledger(part)),
        f"share of the time of a step: {meaning}",
        form=".0%",
        of_steps=True,
    )
    for part, meaning in MEANINGS.items()
}
"""Part of the ledger -> its share of a step."""

COMPUTE_STEP = Figure(
    "compute-step",
    "compute",
    of_ledger(*COMPUTE),
    "copy, forward, backward and optimizer in a step",
    "ms",
    of_steps=True,
)
COMMUNICATION_STEP = Figure(
    "communication-step",
    "communication",
    of_ledger(*COMMUNICATION),
    "wait and wire in a step; what is hidden behind computation is left out",
    "ms",
    of_steps=True,
)
REST_STEP = Figure("rest-step", "other", of_ledger(*REST), "data and other in a step", "ms", of_steps=True)
HIDDEN_STEP = Figure(
    "hidden",
    "hidden",
    hidden,
    "communication that overlaps computation and adds no time to the step",
    "ms",
    of_steps=True,
)
COMPUTE_SHARE = Figure(
    "compute-share",
    "compute share",
    share(COMPUTE_STEP.of),
    "share of the time of a step: copy, forward, backward and optimizer",
    form=".0%",
    of_steps=True,
)
COMMUNICATION_SHARE = Figure(
    "communication-share",
    "communication share",
    share(COMMUNICATION_STEP.of),
    "share of the time of a step: wait and wire",
    form=".0%",
    of_steps=True,
)
HIDDEN_SHARE = Figure(
    "hidden-share",
    "hidden share",
    share(hidden),
    "communication that overlaps computation, over the time of a step",
    form=".0%",
    of_steps=True,
)
COMPUTE_EPOCH = Figure(
    "compute",
    "compute",
    of_epoch(*COMPUTE),
    "copy, forward, backward and optimizer of a step, times the steps of an epoch",
    "s",
    of_steps=True,
    in_full="computing in an epoch",
)
COMMUNICATION_EPOCH = Figure(
    "communication",
    "communication",
    of_epoch(*COMMUNICATION),
    "wait and wire of a step, times the steps of an epoch",
    "s",
    of_steps=True,
    in_full="communicating in an epoch",
)
WIRE_EPOCH = Figure(
    "wire", "moving bytes", of_epoch("wire"), "wire of a step, times the steps of an epoch", "s", of_steps=True
)
REST_EPOCH = Figure(
    "rest",
    "other",
    of_epoch(*REST),
    "loading batches and everything else, times the steps of an epoch",
    "s",
    of_steps=True,
)


def mean(values: list[float | None]) -> float | None:
    return statistics.fmean(values) if values and None not in values else None  # type: ignore[arg-type] # just checked
