"""Who is slow, and why, from made-up steps."""

from __future__ import annotations

from gradsync.ledger.stamps import Step, read_step
from gradsync.ledger.stragglers import NO_CORE, OUTSIDE, blame_cores, sentence, straggler


def step(data: float = 0.01, forward: float = 0.02, late_scatter: float = 0.0, end: float = 0.1) -> Step:
    """Data, forward, then a gather and a scatter."""
    arrival = data + forward
    calls = [(arrival, end - 0.02), (end - 0.02 + late_scatter, end)]
    return read_step(
        {
            "seconds": end,
            "begin": 50.0,
            "phases": [["data", 0.0], ["forward", data], ["agree", arrival]],
            "first_collective": 0,
            "collectives": [["gather", "gradients", 1, 1, start, stop, 0] for start, stop in calls],
        }
    )


def test_the_rank_that_is_late_is_named_with_its_cause():
    steps = [[step(), step(forward=0.05), step()] for _ in range(10)]
    found = straggler(steps)
    assert sentence(found) == "rank 1 arrives last in 10 of 10 steps, by 30 ms; cause: forward"
    steps = [[step(), step(), step(data=0.05)] for _ in range(10)]
    assert (straggler(steps).rank, straggler(steps).cause) == (2, "data")


def test_taking_turns_at_being_late_is_nobodys_fault():
    steps = [[step(data=0.01 + 0.03 * (turn == rank)) for rank in range(3)] for turn in (0, 1, 2) * 5]
    assert straggler(steps) is None
    two = [[step(data=0.01 + 0.03 * (number % 2 == rank)) for rank in range(2)] for number in range(11)]
    assert straggler(two) is None, "of two, one is last in 6 of 11 steps by chance"


def test_late_in_most_steps_is_named_with_how_many():
    steps = [[step(), step(data=0.05 if number < 8 else 0.0)] for number in range(10)]
    assert (straggler(steps).late_steps, straggler(steps).steps) == (8, 10)


def test_a_little_late_is_not_worth_a_word():
    assert straggler([[step(), step(data=0.015)] for _ in range(10)]) is None


def test_the_rank_that_averages_for_the_others_is_not_slow():
    """Late at the scatter, in every step, but not at the gather."""
    assert straggler([[step(late_scatter=0.015), step(), step()] for _ in range(10)]) is None


def test_buckets_that_are_late_together_count_once():
    def buckets(late: float) -> Step:
        calls = [["all_reduce", "gradients", 1, 1, 0.01 * number + late, 0.1, 1] for number in (1, 2, 3)]
        phases = [["backward", 0.0], ["drain", 0.08]]
        return read_step(
            {"seconds": 0.1, "begin": 50.0, "phases": phases, "first_collective": 0, "collectives": calls}
        )

    found = straggler([[buckets(0.0), buckets(0.04)]] * 6)
    assert (found.rank, round(found.seconds, 6)) == (1, 0.06)  # from 0.01, when the other came, to 0.07


def test_late_because_it_began_late_is_not_put_down_to_a_part_of_the_step():
    """As after testing, which lies between two epochs."""
    steps = [[step(), shifted(step(), 0.03)] for _ in range(6)]
    assert straggler(steps).cause == OUTSIDE


def shifted(item: Step, seconds: float) -> Step:
    move = [call._replace(start=call.start + seconds, end=call.end + seconds) for call in item.collectives]
    phases = [(name, start + seconds, end + seconds) for name, start, end in item.phases]
    return Step(item.begin + seconds, item.end + seconds, phases, move)


def test_ranks_that_make_other_calls_are_still_compared_where_they_meet():
    server = step()
    calls = [["receive", "control", 0, 1, 0.01, 0.02, 0], ["all_reduce", "gradients", 1, 1, 0.06, 0.1, 0]]
    row = {"seconds": 0.1, "begin": 50.0, "phases": [["forward", 0.0], ["own phase", 0.05]], "first_collective": 0}
    late = read_step(row | {"collectives": calls})
    assert [item.number for item in late.collectives] == [None, 0]
    assert straggler([[server, late]] * 6).rank == 1


def test_one_rank_or_no_steps_have_no_straggler():
    assert straggler([[step()]] * 5) is None
    assert straggler([]) is None


def test_a_rank_without_a_core_is_not_called_slow_at_computing():
    steps = [[step(), step(forward=0.05)] for _ in range(10)]
    found = straggler(steps)
    assert blame_cores(found, [0.0, 0.25], steps).cause == NO_CORE  # 25 ms of each step; late by 30
    assert blame_cores(found, [0.2, 0.25], steps).cause == "forward"
