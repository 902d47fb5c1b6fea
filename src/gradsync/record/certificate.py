"""The equivalence certificate of a run: how far its model is from that of one process (certificate.json)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gradsync.record.damage import DamagedRecord, read_json
from gradsync.record.folder import write_json
from gradsync.record.shape import Wrong, built, checker
from gradsync.record.summaries import SummaryPart

CERTIFICATE_FILE = "certificate.json"

Verdict = Literal["exact", "equal to rounding", "approximate by design", "wrong", "failed"]


@dataclass(kw_only=True)
class Check(SummaryPart):
    """One thing that a strategy must do."""

    name: str
    holds: bool | None
    """None: it cannot be said."""

    found: str
    """What was measured, or why nothing was."""

    in_loop: bool = False
    """Of a training loop as users write them (testing/ways.py)."""


@dataclass(kw_only=True)
class Certificate(SummaryPart):
    reference: str
    """The folder of the run in one process, beside this one."""

    distance: float | None
    """The largest difference in any parameter tensor, relative to the largest number in it. None: it is not
    finite, or the run failed."""

    same_bits: bool | None
    """Whether every rank holds the same parameters. None: the run failed."""

    verdict: Verdict
    differs: str
    """What differs from one process, and why; for a failed run, its error."""

    checks: list[Check] = field(default_factory=list)
    """What the strategy must do, one by one; empty if only its parameters were compared."""

    @property
    def same_model(self) -> bool:
        return self.verdict not in ("wrong", "failed")

    @property
    def passed(self) -> bool:
        return self.same_model and all(check.holds is not False for check in self.checks)


def write_certificate(folder: Path, certificate: Certificate) -> None:
    write_json(folder / CERTIFICATE_FILE, certificate.to_dict())


def read_certificate(folder: Path) -> Certificate | None:
    """None: the run was not verified."""
    if not os.path.exists(folder / CERTIFICATE_FILE):
        return None
    values = read_json(folder / CERTIFICATE_FILE)
    try:
        checker(Certificate)(values)
    except Wrong as wrong:
        raise DamagedRecord(folder, f"{CERTIFICATE_FILE}: {wrong}") from None
    return built(Certificate, values)
