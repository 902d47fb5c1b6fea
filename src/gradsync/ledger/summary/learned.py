"""What was learned, and how long the epochs took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from gradsync.record import RankRecord
from gradsync.record.rows import TestRow
from gradsync.record.summaries import Test, TestOfEpoch


def epoch_seconds(ranks: Sequence[RankRecord], steps_per_epoch: int | None) -> list[float]:
    """Seconds of each whole epoch, by the slowest rank. An epoch cut short is left out."""
    slowest: dict[int, float] = {}
    for record in ranks:
        seconds: dict[int, list[float]] = defaultdict(list)
        for row in record.steps:
            seconds[row["epoch"]].append(row["seconds"])
        for epoch, values in seconds.items():
            if len(values) == steps_per_epoch:
                slowest[epoch] = max(slowest.get(epoch, 0.0), sum(values))
    return [slowest[epoch] for epoch in sorted(slowest)]


def train_loss(ranks: Sequence[RankRecord]) -> list[float | None]:
    """Mean loss per sample of each epoch over all ranks; None where a step's loss was NaN or infinite."""
    losses: dict[int, list[tuple[float | None, int]]] = defaultdict(list)
    for record in ranks:
        for row in record.steps:
            losses[row["epoch"]].append((row["loss"], row["samples"]))
    return [weighted_mean(losses[epoch]) for epoch in sorted(losses)]


def weighted_mean(pairs: Sequence[tuple[float | None, int]]) -> float | None:
    values = [(value, weight) for value, weight in pairs if value is not None]
    if len(values) < len(pairs):
        return None
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def train_accuracy(ranks: Sequence[RankRecord]) -> list[float]:
    """Share of the samples of each epoch that were classified correctly before the update; empty if not counted."""
    counts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for record in ranks:
        for row in record.steps:
            if "correct" in row:
                counts[row["epoch"]].append((row["correct"], row["samples"]))
    return [
        sum(right for right, _ in pairs) / sum(count for _, count in pairs) for _, pairs in sorted(counts.items())
    ]


def test_of_run(ranks: Sequence[RankRecord], lost: Collection[int]) -> Test | None:
    """The ranks' shares combined, or one rank's figures where each tested the whole set.

    That one is the rank that has seen the most updates of a server, else rank 0.
    """
    found = [record.tests[-1] for rank, record in enumerate(ranks) if rank not in lost and record.tests]
    if found and found[0]["whole"]:
        found = [max(found, key=lambda row: row.get("update", 0))]
    return together(found)


def test_of_rank(record: RankRecord) -> Test | None:
    """The rank's own test, where ranks have different models."""
    return together(record.tests[-1:]) if record.tests and record.tests[-1]["whole"] else None


def together(rows: Sequence[TestRow]) -> Test | None:
    """None where no sample was tested."""
    count = sum(row["count"] for row in rows)
    correct = sum(row["correct"] for row in rows)
    losses = [row["loss_sum"] for row in rows]
    if not count:
        return None
    known = [loss for loss in losses if loss is not None]
    loss = sum(known) / count if len(known) == len(losses) else None
    return Test(loss=loss, accuracy=correct / count, correct=correct, count=count)


def tests_of_epochs(record: RankRecord) -> list[TestOfEpoch]:
    """A rank's own test after each epoch, where ranks have different models."""
    return [
        TestOfEpoch(epoch=row["epoch"], update=row.get("update"), **found.to_dict())
        for row in record.tests
        if row["whole"] and (found := together([row]))
    ]
