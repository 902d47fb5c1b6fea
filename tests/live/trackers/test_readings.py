"""From rows to scalars and events."""

from __future__ import annotations

from typing import Any

from gradsync.live.trackers.readings import Readings, step_scalars
from made_up import start_row, step_row


def measured(number: int, rank: int, late: float) -> Any:
    """Rank 1 needs longer for its batch, and rank 0 waits for it."""
    arrival = 0.02 + late * rank
    return step_row(
        number,
        seconds=0.1,
        begin=number / 10,
        phases=[["data", 0.0], ["forward", arrival - 0.01], ["agree", arrival]],
        first_collective=number,
        collectives=[["all_reduce", "gradients", 8, 8, arrival, 0.1, 0]],
        payload={"gradients": [8e6, 8e6], "buffers": [1e6, 0.0]},
    )


def read(steps: int, late: Any) -> Readings:
    readings = Readings()
    for rank in (0, 1):
        readings.add(rank, start_row(rank=rank))  # type: ignore[arg-type] # a row as made up
    for number in range(1, steps + 1):
        for rank in (0, 1):
            readings.add(rank, measured(number, rank, late(number)))
    return readings


def test_metrics_are_called_what_the_row_calls_them_and_what_is_unknown_is_absent():
    row: Any = {"kind": "step", "step": 3, "epoch": 1, "seconds": 0.5, "metrics": {"rmse": 2.0, "perplexity": None}}
    scalars = step_scalars(row, ranks=2)
    assert scalars["train/rmse"] == 2.0
    readings = Readings()
    readings.add(0, row)
    (point,) = readings.take()[0]
    assert point.values == {"train/rmse": 2.0, "train/seconds_per_step": 0.5, "train/epoch": 1.0}


def test_throughput_is_of_this_rank_and_of_all_and_bytes_are_those_of_the_step():
    points, _ = read(1, lambda number: 0.0).take()
    own = {tag: value for point in points if point.rank == 0 for tag, value in point.values.items()}
    assert own["train/samples_per_second_of_all_ranks"] == 2 * own["train/samples_per_second"]
    assert own["network/payload_sent_mb"] == 9.0
    assert own["network/payload_received_mb"] == 8.0
    other = {tag for point in points if point.rank == 1 for tag in point.values}
    assert "train/samples_per_second_of_all_ranks" not in other


def test_a_straggler_is_told_of_once_until_it_changes():
    readings = read(60, lambda number: 0.06 if number <= 40 else 0.0)
    readings.close()
    points, events = readings.take()
    assert [step for step, _ in events] == [20, 60]
    assert events[0][1] == "steps 1 to 20: rank 1 arrives last in 20 of 20 steps, by 60 ms; cause: data"
    assert events[1][1] == "steps 41 to 60: no rank is late any more"
    found = [(point.step, point.values) for point in points if "straggler/rank" in point.values]
    assert [step for step, _ in found] == [20, 40]
    assert found[0][1]["straggler/rank"] == 1.0
    held_up = [point.values["straggler/held_up_ms"] for point in points if "straggler/held_up_ms" in point.values]
    assert round(max(held_up)) == 60


def test_a_run_of_a_few_steps_has_its_straggler_told_at_the_end():
    readings = read(8, lambda number: 0.06)
    assert readings.take()[1] == []
    readings.close()
    assert readings.take()[1][0][0] == 8
