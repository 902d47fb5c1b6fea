"""Every figure by its name: the source for the tables, charts and sentences of all commands, and for --columns."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gradsync.errors import unknown
from gradsync.figures.catalogue import (
    of_certificate,
    of_host,
    of_learning,
    of_probe,
    of_speed_up,
    of_subtraction,
    of_time,
    of_traffic,
)
from gradsync.figures.figure import Figure, FigureOf

ROOMS = {
    "Time": of_time,
    "Speed-up": of_speed_up,
    "Learning": of_learning,
    "Traffic": of_traffic,
    "Host": of_host,
    "Subtraction": of_subtraction,
    "Collective benchmark": of_probe,
    "Equivalence certificate": of_certificate,
}
"""Title -> the module whose figures these are."""


def figures_in(room: ModuleType) -> Iterator[FigureOf[Any]]:
    """The figures of a module, defined one by one or in a table with one for each part of a step."""
    for found in vars(room).values():
        if isinstance(found, FigureOf):
            yield found
        elif isinstance(found, dict):
            yield from (item for item in found.values() if isinstance(item, FigureOf))


CATALOGUE: dict[str, FigureOf[Any]] = {figure.name: figure for room in ROOMS.values() for figure in figures_in(room)}

FIGURES = {name: figure for name, figure in CATALOGUE.items() if isinstance(figure, Figure)}
"""Those of a run, which a table of runs can have as columns."""


def find_figure(name: str) -> Figure:
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return FIGURES[name]
