"""What was learned, and how long the epochs took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from gradsync.config.task import ACCURACY, figure_of, mean_of_figure
from gradsync.ledger.stamps import read_step
from gradsync.record import RankRecord
from gradsync.record.rows import StepRow, TestRow
from gradsync.record.summaries import Test, TestOfEpoch


def epoch_seconds(ranks: Sequence[RankRecord], steps_per_epoch: int | None) -> list[float]:
    """Seconds of each whole epoch, by the slowest rank."""
    slowest: dict[int, float] = {}
    for record in ranks:
        for epoch, rows in whole_epochs(record, steps_per_epoch).items():
            slowest[epoch] = max(slowest.get(epoch, 0.0), sum(row["seconds"] for row in rows))
    return [slowest[epoch] for epoch in sorted(slowest)]


def epoch_without_data(ranks: Iterable[RankRecord], steps_per_epoch: int | None) -> float | None:
    """Seconds of the last whole epoch without the time spent loading batches, by the slowest rank.

    None where a rank has no whole epoch, or none that was measured.
    """
    found: list[float] = []
    for record in ranks:
        whole = whole_epochs(record, steps_per_epoch)
        last = whole[max(whole)] if whole else []
        if not last or not all("phases" in row for row in last):
            return None
        loading = sum(end - start for row in last for name, start, end in read_step(row).phases if name == "data")
        found.append(sum(row["seconds"] for row in last) - loading)
    return max(found, default=None)


def whole_epochs(record: RankRecord, steps_per_epoch: int | None) -> dict[int, list[StepRow]]:
    """The steps of each epoch of a rank. An epoch cut short is left out."""
    epochs: dict[int, list[StepRow]] = defaultdict(list)
    for row in record.steps:
        epochs[row["epoch"]].append(row)
    return {epoch: rows for epoch, rows in epochs.items() if len(rows) == steps_per_epoch}


def train_loss(ranks: Sequence[RankRecord]) -> list[float | None]:
    """Mean loss per sample of each epoch over all ranks; None where a step's loss was NaN or infinite. Empty where no
    loss was recorded."""
    losses: dict[int, list[tuple[float | None, int]]] = defaultdict(list)
    for record in ranks:
        for row in record.steps:
            if "loss" in row:
                losses[row["epoch"]].append((row["loss"], row.get("samples", 1)))
    return [weighted_mean(losses[epoch]) for epoch in sorted(losses)]


def weighted_mean(pairs: Sequence[tuple[float | None, int]]) -> float | None:
    values = [(value, weight) for value, weight in pairs if value is not None]
    if len(values) < len(pairs):
        return None
    return sum(value * weight for value, weight in values) / sum(weight for _, weight in values)


def train_metrics(ranks: Sequence[RankRecord]) -> dict[str, list[float | None]]:
    """Each metric in each epoch, over all samples of all ranks, each before the update it takes part in; None where
    it was not finite. Empty where none was recorded."""
    found: dict[str, dict[int, list[tuple[float | None, int]]]] = {}
    for record in ranks:
        for row in record.steps:
            samples = row.get("samples", 1)
            for name, value in metrics_of_step(row).items():
                epochs = found.setdefault(name, defaultdict(list))
                epochs[row["epoch"]].append((mean_of_figure(name, value), samples))
    return {
        name: [figure_of(name, weighted_mean(epochs[epoch])) for epoch in sorted(epochs)]
        for name, epochs in found.items()
    }


def metrics_of_step(row: StepRow) -> Mapping[str, float | None]:
    """Earlier versions counted what was classified correctly, and had no other metric."""
    if "correct" in row:
        return {ACCURACY: row["correct"] / row.get("samples", 1), **row.get("metrics", {})}
    return row.get("metrics", {})


def test_of_run(ranks: Sequence[RankRecord], lost: Collection[int]) -> Test | None:
    """The last of its tests."""
    tests = rows_of_tests(ranks, lost)
    return combined(tests[-1]) if tests else None


def tests_of_run(ranks: Sequence[RankRecord], lost: Collection[int]) -> list[TestOfEpoch]:
    """Its test after each epoch."""
    return list(filter(None, map(of_epoch, rows_of_tests(ranks, lost))))


def rows_of_tests(ranks: Sequence[RankRecord], lost: Collection[int]) -> list[list[TestRow]]:
    """After each epoch: all ranks' shares, or one rank's row where each tested the whole set.

    That one is the rank that had seen the most updates of a server by then, else rank 0. The last test is that with
    the most updates of all: it is of the model that is kept.
    """
    epochs: dict[int, list[TestRow]] = defaultdict(list)
    staying = [record for rank, record in enumerate(ranks) if rank not in lost]
    for row in (row for record in staying for row in record.tests):
        epochs[row["epoch"]].append(row)
    tests = [
        [max(rows, key=updates_seen)] if rows[0]["whole"] else rows
        for _, rows in sorted(epochs.items())
        if rows[0]["whole"] or len(rows) == len(staying)  # else the run ended before every share was tested
    ]
    last = max(tests, key=lambda rows: (updates_seen(rows[0]), rows[0]["epoch"]), default=None)
    return tests[: tests.index(last) + 1] if last else []


def updates_seen(row: TestRow) -> int:
    return row.get("update", 0)


def test_of_rank(record: RankRecord) -> Test | None:
    """The rank's own test, where ranks have different models."""
    return combined(record.tests[-1:]) if record.tests and record.tests[-1]["whole"] else None


def tests_of_epochs(record: RankRecord) -> list[TestOfEpoch]:
    """A rank's own test after each epoch, where ranks have different models."""
    return list(filter(None, (of_epoch([row]) for row in record.tests if row["whole"])))


def of_epoch(rows: Sequence[TestRow]) -> TestOfEpoch | None:
    if found := combined(rows):
        return TestOfEpoch(epoch=rows[0]["epoch"], update=rows[0].get("update"), **found.to_dict())
    return None


def combined(rows: Sequence[TestRow]) -> Test | None:
    """Of all samples that were tested; None where there was none."""
    count = sum(row["count"] for row in rows)
    if not count:
        return None
    sums = [sums_of(row) for row in rows]
    totals = {name: total([each.get(name) for each in sums]) for name in sums[0]}
    right = totals.get(ACCURACY)
    return Test(
        loss=mean_of_sum(total([row["loss_sum"] for row in rows]), count),
        count=count,
        accuracy=mean_of_sum(right, count),
        correct=int(right) if right is not None and right == int(right) else None,
        metrics={name: figure_of(name, mean_of_sum(value, count)) for name, value in totals.items()},
    )


def sums_of(row: TestRow) -> dict[str, float | None]:
    """Earlier versions had the number of samples that were classified correctly, and no other metric."""
    found: dict[str, float | None] = {ACCURACY: row["correct"]} if "correct" in row else {}
    return found | row.get("sums", {})


def total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def mean_of_sum(value: float | None, count: int) -> float | None:
    return None if value is None else value / count
