"""One command at a time makes the runs of a study, and only those that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gradsync.errors import InputError
from gradsync.launch import unwatched
from gradsync.record import Run
from gradsync.study import Study, Sweep
from gradsync.study.making.base import Planned
from gradsync.study.making.carry_out import Kept, carry_out, held, prepare, read_study, runs_folder, runs_of
from made_up import made_up, resolved


def test_a_folder_that_another_command_holds_is_refused_until_it_is_free(tmp_path: Path):
    with (
        held(tmp_path / "study"),
        pytest.raises(InputError, match="another command is at work in"),
        held(tmp_path / "study"),
    ):
        pytest.fail("both hold it")
    with held(tmp_path / "study"):
        assert (tmp_path / "study").is_dir()


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"), held(tmp_path / "file" / "study"):
        pytest.fail("it is held")


class Fakes(Sweep):
    """Its runs are made up, a list of those that share processes at a time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.made: list[list[int | None]] = []

    def make(self, runs: Sequence[Planned], watch: object) -> list[Run]:
        self.made.append([planned.ready.steps for planned in runs])
        return [made_up(Path(planned.ready.out), planned.ready.asked) for planned in runs]


def planned_in(folder: Path, study: Study) -> list[Planned]:
    asked = [replace(item, out=str(runs_folder(folder))) for item in study.repeated(study.plan())]
    prepare(folder, study, "gradsync study sweep", asked)
    return [Planned(item, resolved(item)) for item in asked]


def test_finished_runs_are_kept_and_the_others_made_in_the_order_of_the_plan(tmp_path: Path):
    study = Fakes(vary=("steps=3,4",), eval=False)
    assert len(carry_out(study, planned_in(tmp_path, study), Kept(tmp_path, finish=True), unwatched)) == 2
    assert study.made == [[3, 4]], "both can have the same processes"
    more = Fakes(vary=("steps=5,3,6,4",), eval=False)
    runs = carry_out(more, planned_in(tmp_path, more), Kept(tmp_path, finish=True), unwatched)
    assert [run.asked.steps for run in runs] == [5, 3, 6, 4]
    assert more.made == [[5], [6]]
    assert [run.asked.steps for run in runs_of(tmp_path)] == [5, 3, 6, 4]


def test_a_study_whose_runs_need_their_own_processes_makes_one_at_a_time(tmp_path: Path):
    study = Fakes(vary=("steps=3,4",), eval=False)
    study.own_processes = lambda asked: True  # type: ignore[method-assign]
    carry_out(study, planned_in(tmp_path, study), Kept(tmp_path, finish=True), unwatched)
    assert study.made == [[3], [4]]


def test_study_json_holds_what_was_asked_and_nothing_about_where(tmp_path: Path):
    study = Sweep(vary=("steps=3,4",), folder=str(tmp_path), out="elsewhere")
    prepare(tmp_path, study, "gradsync study sweep", study.plan())
    record = read_study(tmp_path)
    assert (record["study"], record["command"], len(record["plan"])) == ("sweep", "gradsync study sweep", 2)
    assert not {"folder", "out"} & set(record["settings"])
