"""The Trace Event Format as far as a viewer needs it to draw a trace."""

from __future__ import annotations

from collections import defaultdict

REQUIRED = {
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "M": {"name", "pid", "tid", "args"},
    "C": {"name", "ts", "pid", "args"},
    "s": {"name", "cat", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
}


def check_format(whole: dict) -> None:
    """Events have their fields, spans nest on every thread, arrows have two ends inside spans."""
    events = whole["traceEvents"]
    spans = defaultdict(list)
    flows = defaultdict(list)
    for event in events:
        missing = REQUIRED[event["ph"]] - set(event)
        assert not missing, f"{event} lacks {missing}"
        assert event["pid"] > 0, "Perfetto takes 0 for the idle task"
        if "ts" in event:
            assert isinstance(event["ts"], int), "a viewer may cut fractions off, and spans overlap"
        if event["ph"] == "X":
            assert isinstance(event["dur"], int)
            assert event["dur"] > 0, "Perfetto drops what begins where an empty span stands"
            assert event["ts"] >= 0
            spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] in "sf":
            assert isinstance(event["id"], int), "Perfetto takes numbers only"
            flows[event["cat"], event["name"], event["id"]].append(event)
    for lane in spans.values():
        check_nesting(lane)
    for ends in flows.values():
        assert [end["ph"] for end in ends] == ["s", "f"]
        assert ends[0]["ts"] <= ends[1]["ts"]
        for end in ends:
            lane = spans[end["pid"], end["tid"]]
            assert any(start <= end["ts"] <= stop for start, stop in lane)
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert named == set(spans)
    assert len({thread for _, thread in named}) == len(named), "a thread id belongs to one process"


def check_nesting(lane: list[tuple[float, float]]) -> None:
    open_spans: list[float] = []
    for start, stop in sorted(lane, key=lambda span: (span[0], -span[1])):
        while open_spans and open_spans[-1] <= start:
            open_spans.pop()
        assert not open_spans or stop <= open_spans[-1], "spans overlap without one holding the other"
        open_spans.append(stop)
