"""Many runs and what they show together. A study is settings, a plan of runs, and sections made of their records."""

from __future__ import annotations

from dataclasses import fields

from gradsync.errors import unknown
from gradsync.study.batch import BatchStudy
from gradsync.study.communication import Communication
from gradsync.study.compare import CompareStudy
from gradsync.study.large_batch import LargeBatch
from gradsync.study.making.base import WHERE, Study
from gradsync.study.making.carry_out import StudyRecord
from gradsync.study.making.several import SettingsStudy
from gradsync.study.pareto import Pareto
from gradsync.study.probe import ProbeStudy
from gradsync.study.reproduce.reproduction import Reproduction
from gradsync.study.scaling import Scaling
from gradsync.study.sweep import Sweep
from gradsync.study.sync_async import SyncAsync
from gradsync.study.verify import VerifyStudy

STUDIES: dict[str, type[SettingsStudy]] = {
    kind.name: kind for kind in (BatchStudy, Scaling, Communication, LargeBatch, SyncAsync, Sweep, Pareto)
}
"""The studies that ``gradsync study NAME`` carries out."""

KINDS: dict[str, type[Study]] = {
    **STUDIES,
    **{kind.name: kind for kind in (CompareStudy, VerifyStudy, ProbeStudy, Reproduction)},
}
"""All studies, by their name in study.json: those not in STUDIES have a command of their own."""


def study_of(record: StudyRecord) -> Study:
    """The study that a study.json describes, with the same settings, to show what its runs show."""
    if record["study"] not in KINDS:
        raise unknown("study", record["study"], KINDS)
    kind = KINDS[record["study"]]
    given = {name: value for name, value in record["settings"].items() if name not in WHERE}
    known = {item.name for item in fields(kind)}
    for name in given:
        if name not in known:
            raise unknown(f"setting of the study {record['study']}:", name, known)
    return kind(**given)
