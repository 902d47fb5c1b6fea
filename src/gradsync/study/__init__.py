"""Many runs and what they show together. A study is settings, a plan of runs, and sections made of their records."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from gradsync.errors import unknown
from gradsync.study.batch import Batch
from gradsync.study.communication import Communication
from gradsync.study.large_batch import LargeBatch
from gradsync.study.pareto import Pareto
from gradsync.study.reproduce import Reproduction
from gradsync.study.scaling import Scaling
from gradsync.study.settings import Study
from gradsync.study.sweep import Sweep
from gradsync.study.sync_async import SyncAsync

STUDIES: dict[str, type[Study]] = {
    kind.name: kind for kind in (Batch, Scaling, Communication, LargeBatch, SyncAsync, Sweep, Pareto)
}


def study_of(record: dict[str, Any]) -> Study | Reproduction:
    """From a study.json: the same settings again, to show what its runs show."""
    kinds: dict[str, type[Study | Reproduction]] = {**STUDIES, Reproduction.name: Reproduction}
    if record["study"] not in kinds:
        raise unknown("study", record["study"], kinds)
    kind = kinds[record["study"]]
    known = {item.name for item in fields(kind)}
    for name in record["settings"]:
        if name not in known:
            raise unknown(f"setting of the study {record['study']}:", name, known)
    return kind(**record["settings"])
