"""Which folder a study is kept in: a study resumes where it began, and a different one never overwrites it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

from gradsync.config.values import counted
from gradsync.errors import InputError
from gradsync.record import UnreadableRecord, has_files
from gradsync.record.walk import is_study
from gradsync.study.making.base import Asked, Study
from gradsync.study.making.carry_out import key, read_study
from gradsync.text import printable


def choose_folder(study: Study, plan: Sequence[Asked]) -> Path:
    """The folder the user named, or the first one of the study's name that holds nothing else."""
    if study.folder:
        folder = Path(study.folder)
        if other := held_by_other(folder, study.name, plan):
            raise InputError(
                f"{printable(folder)} holds {other}. HINT: name another --folder, or leave it out: then this study "
                f"gets a folder of its own in {printable(study.out)}."
            )
        return folder
    first = Path(study.out) / study.default_folder
    folders = (first if number == 1 else first.with_name(f"{first.name}-{number}") for number in count(1))
    return next(folder for folder in folders if not held_by_other(folder, study.name, plan))


def held_by_other(folder: Path, name: str, plan: Sequence[Asked]) -> str:
    """What is there that this study would overwrite; nothing if it is free, or is this study, or a part of it."""
    if not is_study(folder):
        return "files that are not a study" if has_files(folder) else ""
    try:
        record = read_study(folder)
    except UnreadableRecord:
        return "a study whose study.json cannot be read"
    if record["study"] != name:
        return f"the study {record['study']}"
    wanted = {key(asked.to_dict()) for asked in plan}
    others = sum(key(asked) not in wanted for asked in record["plan"])
    if others:
        return (
            f"a different study {name}: {others} of its {counted(len(record['plan']), 'run')} are not asked for now"
        )
    return ""
