"""Which lines of a chart are the same: what a sentence says of them and what is drawn must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Point = Sequence[str | int | float | None]

DIGITS = 6  # significant ones that must agree for two points to be the same


def coinciding(lines: Mapping[str, Sequence[Point]]) -> list[list[str]]:
    """The names of lines with the same points, line by line in their order."""
    same: dict[tuple[Point, ...], list[str]] = {}
    for name, points in lines.items():
        same.setdefault(tuple(tuple(map(rounded, point)) for point in points), []).append(name)
    return list(same.values())


def rounded(value: str | int | float | None) -> str | int | float | None:
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
