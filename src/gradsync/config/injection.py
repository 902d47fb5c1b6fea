"""A rank made slow on purpose, to see what it does to the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gradsync.config.values import shown
from gradsync.errors import InputError

SLOWEST_MBIT, FASTEST_MBIT = 0.01, 32_000.0  # what the kernel's token bucket can count
LONGEST_MS = 3_600_000


@dataclass(frozen=True)
class Injection:
    """A delay for one rank in every step, or a slower link for its node while the run lasts."""

    rank: int
    where: str
    seconds: float = 0.0
    bits_per_second: float | None = None

    PLACES: ClassVar = ("data", "forward", "backward", "link")

    def delay(self, rank: int, where: str) -> float:
        return self.seconds if (rank, where) == (self.rank, self.where) else 0.0


def parse_injection(text: str | None) -> Injection | None:
    """``rank=2,where=data,ms=200`` or ``rank=2,where=link,mbit=100``, in any order."""
    if text is None:
        return None
    try:
        values = dict(item.split("=") for item in text.replace(" ", "").split(","))
        rank, where = int(values.pop("rank")), values.pop("where")
        slower = "mbit" if where == "link" and "mbit" in values else "ms"
        amount = float(values.pop(slower))
        if values or rank < 0 or where not in Injection.PLACES or not 0 <= amount <= LONGEST_MS:
            raise ValueError
        if slower == "mbit" and not SLOWEST_MBIT <= amount <= FASTEST_MBIT:
            raise ValueError
    except (KeyError, ValueError):
        raise InputError(
            f"--inject is {shown(text)}: it must read rank=R,where=W,ms=T with a rank from 0, one of "
            f"{', '.join(Injection.PLACES)}, and milliseconds from 0 to {LONGEST_MS}; or, for a link, mbit=M "
            "instead of ms, from 0.01 to 32000. For instance rank=1,where=data,ms=200 or rank=1,where=link,mbit=100."
        ) from None
    if slower == "mbit":
        return Injection(rank, where, bits_per_second=amount * 1e6)
    return Injection(rank, where, amount / 1e3)
