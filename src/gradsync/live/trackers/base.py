"""What a tracker is: something that takes the scalars of a run, the events in it, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

Status = Literal["completed", "failed", "killed"]
Settings = Mapping[str, Any]
Scalars = dict[str, float]


class Point(NamedTuple):
    """Scalars of one rank at one step."""

    rank: int
    step: int
    values: Scalars


class Tracker(Protocol):
    """Made with the run folder and the settings in resolved.json, when the run begins."""

    def log(self, points: Sequence[Point]) -> None:
        """What is new since the last call, about once a second."""

    def event(self, step: int, text: str) -> None:
        """Something that a person should read."""

    def end(self, status: Status, summary: Mapping[str, Any]) -> None:
        """How the run ended, and its summary.json: empty where there is none."""


MakeTracker = Callable[[Path, Settings], Tracker]


def flat(values: Mapping[str, Any], between: str) -> dict[str, Any]:
    """Nested tables as one, lists as text, without what is null or empty: {"a": {"b": [1, 2]}} as {"a.b": "1,2"}."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            inside = flat(value, between)
            found |= {f"{name}{between}{key}": item for key, item in inside.items()}
        elif isinstance(value, (list, tuple)):
            found |= {name: ",".join(map(str, value))} if value else {}
        elif value not in (None, ""):
            found[name] = value
    return found


def figures_of(summary: Mapping[str, Any], settings: Settings) -> Scalars:
    """The numbers of summary.json that are no settings, under their names there."""
    results = {name: value for name, value in summary.items() if name not in settings and name != "schema"}
    return {
        f"summary/{name}": float(value)
        for name, value in flat(results, "/").items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def remarks_of(status: Status, summary: Mapping[str, Any]) -> dict[str, str]:
    """What summary.json says in words."""
    error = summary.get("error") or {}
    found = {"status": status, "error": error.get("message")}
    found |= {name: summary.get(name) for name in ("device", "transport")}
    return {name: str(value) for name, value in found.items() if value}
