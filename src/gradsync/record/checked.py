"""Reading summary.json, of this version or an earlier one: checked, and refused if it contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from gradsync.config import Shape
from gradsync.config.values import shown
from gradsync.config.window import DEFAULT_WINDOW, parse_window
from gradsync.errors import InputError
from gradsync.record.shape import Wrong, built, checker
from gradsync.record.summaries import PARTS, SCHEMA, ProbeSummary, RunSummary, Summary

OLDEST_SCHEMA = 2  # the first with a ledger


def other_version(summary: Any) -> str:
    """Why this version does not read it; empty if it does."""
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if type(schema) is not int or OLDEST_SCHEMA <= schema <= SCHEMA:
        return ""
    if schema > SCHEMA:
        return f"its record has schema {shown(schema)}, from a newer gradsync; this one reads up to {SCHEMA}."
    return f"its record has schema {shown(schema)}, from a gradsync too old to have a ledger."


def read_summary(values: Any, of_probe: bool) -> Summary:
    """The summary, in the form this version writes; raises ``Wrong``."""
    kind: type[Summary] = ProbeSummary if of_probe else RunSummary
    checker(kind)(values)  # type: ignore[arg-type] # a class is hashable
    if not of_probe:
        hide_apart(values)
        tell_window(values)
    for problem in contradictions(values, of_probe):
        raise Wrong(problem)
    return built(kind, values)


def hide_apart(summary: dict[str, Any]) -> None:
    """Schema 2 had hidden_comm inside the ledger."""
    for figures in (summary, *summary["ranks"]):
        if figures["ledger"] and "hidden_comm" in figures["ledger"]:
            figures["hidden_comm"] = figures["ledger"].pop("hidden_comm")


def tell_window(summary: dict[str, Any]) -> None:
    """Up to schema 3, steps 2 to 40 were timed, whatever was asked."""
    if summary["schema"] < 4 and summary["seconds_per_step"] is not None:
        window = parse_window(DEFAULT_WINDOW)
        summary["window"] = DEFAULT_WINDOW
        summary["window_first"], summary["window_last"] = window.bounds(max(window.first, summary["steps"]))


def contradictions(summary: dict[str, Any], of_probe: bool) -> Iterator[str]:
    """What no run writes: code that shows a summary relies on its absence."""
    if (summary["status"] == "failed") != bool(summary["error"]):
        yield f"status is {summary['status']}, which its error contradicts"
    if cluster := summary["cluster"]:
        try:
            Shape(**{item.name: cluster[item.name] for item in fields(Shape)})
        except InputError as error:
            yield f"cluster: {error}"
    if of_probe:
        return
    try:
        parse_window(summary.get("window", DEFAULT_WINDOW))
    except InputError as error:
        yield f"window: {error}"
    begin, end = summary.get("window_first"), summary.get("window_last")
    if (begin is None) != (end is None) or (begin is not None and begin > end):
        yield "window_first and window_last are not a window"
    ranks = summary["ranks"]
    if [rank["rank"] for rank in ranks] != list(range(len(ranks))):
        yield "ranks are not numbered from 0 on"
    if len({figures[name] is None for figures in (summary, *ranks) for name in ("ledger", "hidden_comm")}) > 1:
        yield "ledger and hidden_comm are there for some ranks and not for others"
    for figures in (summary, *ranks):
        if figures["ledger"] and set(figures["ledger"]) != set(PARTS):
            yield "ledger does not have the parts of a step"
    if summary["ledger"] and summary["seconds_per_step"] is None:
        yield "ledger is there, but no seconds_per_step"
    if summary["straggler"] and summary["straggler"]["rank"] >= len(ranks):
        yield "straggler.rank is not one of the ranks"
    if summary["staleness"] and not all(key.isdecimal() for key in summary["staleness"]["histogram"]):
        yield "staleness.histogram has a key that is not a whole number"
