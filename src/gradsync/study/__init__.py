"""Many runs and what they show together. A study is settings, a plan of runs, and sections made of their records."""

from __future__ import annotations

from gradsync.study.batch import Batch
from gradsync.study.communication import Communication
from gradsync.study.large_batch import LargeBatch
from gradsync.study.pareto import Pareto
from gradsync.study.scaling import Scaling
from gradsync.study.settings import Study
from gradsync.study.sweep import Sweep
from gradsync.study.sync_async import SyncAsync

STUDIES: dict[str, type[Study]] = {
    kind.name: kind for kind in (Batch, Scaling, Communication, LargeBatch, SyncAsync, Sweep, Pareto)
}
