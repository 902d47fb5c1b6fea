"""Which folder a study is kept in."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradsync.errors import InputError
from gradsync.study import BatchStudy, CompareStudy, Study, Sweep
from gradsync.study.making.carry_out import prepare
from gradsync.study.making.place import choose_folder


def folder_for(study: Study) -> Path:
    return choose_folder(study, study.repeated(study.plan()))


def begin(study: Study) -> Path:
    """As its command does: choose the folder, and remember there what was asked."""
    plan = study.repeated(study.plan())
    folder = choose_folder(study, plan)
    prepare(folder, study, "gradsync", plan)
    return folder


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "studies")


def test_the_same_study_goes_on_where_it_began_and_so_does_one_with_more_runs(out: str):
    first = begin(Sweep(vary=("lr=0.1,0.2",), out=out))
    assert first == Path(out) / "sweep"
    assert folder_for(Sweep(vary=("lr=0.1,0.2",), out=out)) == first
    assert folder_for(Sweep(vary=("lr=0.1,0.2,0.3",), out=out)) == first
    assert folder_for(Sweep(vary=("lr=0.1,0.2",), repeat=2, out=out)) == first


def test_a_different_study_gets_a_folder_of_its_own_and_goes_on_there(out: str):
    begin(Sweep(vary=("lr=0.1,0.2",), out=out))
    second = begin(Sweep(vary=("lr=0.1",), out=out))  # fewer: the report of the first would lose a run
    third = begin(Sweep(vary=("momentum=0.5,0.9",), out=out))
    assert [folder.name for folder in (second, third)] == ["sweep-2", "sweep-3"]
    assert folder_for(Sweep(vary=("momentum=0.5,0.9",), out=out)) == third
    assert folder_for(Sweep(vary=("lr=0.1",), out=out)) == second


def test_a_folder_that_is_named_is_that_path(tmp_path: Path, out: str):
    place = tmp_path / "elsewhere" / "mine"
    assert begin(BatchStudy(folder=str(place), out=out)) == place
    assert begin(BatchStudy(folder=str(place), out=out)) == place
    with pytest.raises(InputError, match=r"mine holds the study batch\. HINT: name another --folder"):
        folder_for(CompareStudy(folder=str(place)))
    with pytest.raises(InputError, match="mine holds a different study batch: 2 of its 4 runs are not asked for now"):
        folder_for(BatchStudy(folder=str(place), batch_sizes=(32, 128)))


def test_what_is_no_study_is_never_written_over(tmp_path: Path, out: str):
    (tmp_path / "studies" / "batch").mkdir(parents=True)
    assert folder_for(BatchStudy(out=out)).name == "batch", "an empty folder is free"
    (tmp_path / "studies" / "batch" / "report.html").write_text("mine")
    assert folder_for(BatchStudy(out=out)).name == "batch-2"
    with pytest.raises(InputError, match="holds files that are not a study"):
        folder_for(BatchStudy(folder=str(tmp_path / "studies" / "batch")))
    (tmp_path / "studies" / "batch" / "study.json").write_text("{")
    with pytest.raises(InputError, match=r"holds a study whose study\.json cannot be read"):
        folder_for(BatchStudy(folder=str(tmp_path / "studies" / "batch")))


def test_a_grid_is_called_like_its_file(out: str):
    study = Sweep(out=out)
    study.called = "grid"
    assert folder_for(study).name == "grid"
