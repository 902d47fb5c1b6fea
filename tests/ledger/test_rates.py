"""Rates of what the host counts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gradsync.ledger.rates import rate, rates
from made_up import step_row


def host(time: float, sent: float | None) -> dict:
    return {"kind": "host", "time": time, "sent_bytes": sent}


def steps(*bounds: float) -> list[dict]:
    pairs = pairwise(bounds)
    return [step_row(number, begin=begin, seconds=end - begin) for number, (begin, end) in enumerate(pairs, 1)]


def test_a_rate_is_growth_per_second_where_both_samples_have_the_count():
    before, after = host(1.0, 10), host(3.0, 40)
    assert rate(before, after, "sent_bytes") == 15.0
    assert rate(after, after, "sent_bytes") is None
    assert rate(host(1.0, None), after, "sent_bytes") is None
    assert rate(before, host(3.0, None), "sent_bytes") is None


def test_rates_are_over_a_step_at_least():
    """Each step of three seconds sends everything in its last second."""
    hosts = [host(time, 100 * (time // 3)) for time in range(13)]
    found = rates(hosts, steps(0.0, 3.0, 6.0, 9.0, 12.0), "sent_bytes")
    assert [time for time, _ in found] == [3, 6, 9, 12]
    assert [growth for _, growth in found] == pytest.approx([100 / 3] * 4)


def test_short_steps_are_averaged_from_sample_to_sample_and_a_rest_joins_the_last():
    hosts = [host(0.0, 0), host(1.0, 10), host(2.0, 40), host(2.01, 41)]
    found = rates(hosts, steps(0.0, 0.1, 0.2), "sent_bytes")
    assert [time for time, _ in found] == [1.0, 2.01]
    assert [growth for _, growth in found] == pytest.approx([10.0, 31 / 1.01])


def test_less_than_a_step_gives_no_rate():
    assert rates([host(0.0, 0), host(1.0, 10)], steps(0.0, 5.0), "sent_bytes") == []
    assert rates([host(0.0, 0)], [], "sent_bytes") == []
    assert rates([host(0.0, None), host(1.0, None)], [], "sent_bytes") == []
