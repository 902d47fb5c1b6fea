"""Unique names: of files in one folder, of anchors on one page."""

from __future__ import annotations

from collections.abc import Iterable


def unique(names: Iterable[str]) -> list[str]:
    """The second of the same name ends with -2, the third with -3."""
    found: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in found:
            number += 1
            candidate = f"{name}-{number}"
        found.append(candidate)
    return found
