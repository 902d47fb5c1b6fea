"""Every figure by its name: the source for --columns, studies, published reports, findings and charts."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from gradsync.errors import unknown
from gradsync.figures.catalogue import of_host, of_learning, of_speed_up, of_time, of_traffic
from gradsync.figures.figure import Figure

ROOMS = {
    "Time": of_time,
    "Speed-up": of_speed_up,
    "Learning": of_learning,
    "Traffic": of_traffic,
    "Host": of_host,
}
"""Title -> the module whose figures these are."""


def figures_in(room: ModuleType) -> Iterator[Figure]:
    """The figures of a module, defined one by one or in a table with one for each part of a step."""
    for found in vars(room).values():
        if isinstance(found, Figure):
            yield found
        elif isinstance(found, dict):
            yield from (item for item in found.values() if isinstance(item, Figure))


FIGURES: dict[str, Figure] = {figure.name: figure for room in ROOMS.values() for figure in figures_in(room)}


def find_figure(name: str) -> Figure:
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return FIGURES[name]
