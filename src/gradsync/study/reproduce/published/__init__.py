"""What the reports published, as data: one TOML file each, with their tables and figures, and what they claim.

An exhibit is a table or a figure of the report. Its rows are runs of ours (reproduce/reports.py makes them), ``run``
or ``run:rank``; what was published for a row stands next to its run, in the report's unit. What cannot be read in the
report is left out. A claim is a sentence of the report and how our runs can show it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from gradsync.errors import unknown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAMES = ("cs744-vgg11-2317", "cs744-vgg11-14", "hpml-lab4", "cs744-tensorflow", "mpi-mnist")

OF_ROW = ("run", "x", "label", "series", "against")


@dataclass(frozen=True)
class RunRank:
    """A run of ours, and the rank a figure is about; None: all ranks."""

    run: str
    rank: int | None = None

    @classmethod
    def of(cls, text: str) -> RunRank:
        run, colon, rank = text.partition(":")
        return cls(run, int(rank) if colon else None)

    def __str__(self) -> str:
        return self.run if self.rank is None else f"{self.run}, rank {self.rank}"


@dataclass(frozen=True)
class PublishedRow:
    place: RunRank
    values: dict[str, float]
    """Figure -> what was published, in the exhibit's unit."""

    x: float | None = None
    label: str = ""
    series: str = ""
    """Rows of one series belong together in a chart over x."""

    against: str = ""
    """The run a speed-up is relative to."""

    @property
    def name(self) -> str:
        return self.label or str(self.place)


@dataclass(frozen=True)
class PublishedExhibit:
    name: str
    """As the report calls it: Table 2, Fig 1.1."""

    title: str
    figures: dict[str, str]
    """Figure -> unit."""

    rows: tuple[PublishedRow, ...]
    note: str = ""
    over: str = ""
    """What x is."""

    over_time: bool = False
    """Whether the network is also drawn over time."""


@dataclass(frozen=True)
class Claim:
    """A sentence, and how figures bear it out, by ``kind``:

    - rising: the figure rises from place to place
    - least: that of the first place is less than all others
    - alike: the largest is at most ``within`` more than the smallest
    - differ: the largest is at least ``within`` more than the smallest
    - ratio: the first over the second is ``about``, give or take ``within``
    - below: the first over the second is less than ``about``
    """

    text: str
    figure: str
    kind: str
    places: tuple[RunRank, ...]
    about: float = 1.0
    within: float = 0.0
    exhibit: str = ""
    """The table or figure it is about, where the report says so."""


@dataclass(frozen=True)
class Published:
    """One report."""

    name: str
    document: str
    """The file the figures were read from."""

    title: str
    setup: str
    exhibits: tuple[PublishedExhibit, ...]
    claims: tuple[Claim, ...]

    @property
    def names(self) -> list[str]:
        """The names of its tables and figures, each once."""
        return list(dict.fromkeys(exhibit.name for exhibit in self.exhibits))

    def value(
        self, place: RunRank, figure: str, exhibit: str = "", exactly: bool = False
    ) -> tuple[float, str] | None:
        """What was published, and its unit: in this exhibit, else wherever it stands.

        It is looked up for this place and, unless ``exactly``, for the run or its first rank.
        """
        places = [place] if exactly else [place, RunRank(place.run), RunRank(place.run, 0)]
        in_order = sorted(self.exhibits, key=lambda item: item.name != exhibit)
        for one in places:
            for item in in_order:
                for row in item.rows:
                    if row.place == one and figure in row.values:
                        return row.values[figure], item.figures[figure]
        return None


@cache
def read(name: str) -> Published:
    if name not in NAMES:
        raise unknown("report", name, NAMES)
    file = resources.files(__name__) / f"{name}.toml"
    values = tomllib.loads(file.read_text(encoding="utf-8"))
    return Published(
        name=name,
        document=values["document"],
        title=values["title"],
        setup=values["setup"],
        exhibits=tuple(map(exhibit, values["exhibit"])),
        claims=tuple(map(claim, values["claim"])),
    )


def exhibit(values: dict[str, Any]) -> PublishedExhibit:
    rows = tuple(
        PublishedRow(
            RunRank.of(row["run"]),
            {name: value for name, value in row.items() if name not in OF_ROW},
            row.get("x"),
            *(row.get(name, "") for name in ("label", "series", "against")),
        )
        for row in values["rows"]
    )
    return PublishedExhibit(
        values["name"],
        values["title"],
        values["figures"],
        rows,
        values.get("note", ""),
        values.get("over", ""),
        "over_time" in values,
    )


KINDS = ("rising", "least", "alike", "differ", "ratio")


def claim(values: dict[str, Any]) -> Claim:
    (kind,) = [name for name in KINDS if name in values]
    below = values.get("below")
    return Claim(
        values["text"],
        values["figure"],
        "below" if below else kind,
        tuple(map(RunRank.of, values[kind])),
        below or values.get("about", 1.0),
        values.get("within", values.get("by", 0.0)),
        values.get("exhibit", ""),
    )
