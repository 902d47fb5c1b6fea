"""Many runs and what they show together. A study is settings, a plan of runs, and sections made of their records."""

from __future__ import annotations

from typing import Any

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
    kind: type[Study | Reproduction] = (
        Reproduction if record["study"] == Reproduction.name else STUDIES[record["study"]]
    )
    return kind(**record["settings"])
