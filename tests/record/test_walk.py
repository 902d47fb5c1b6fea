"""The one walker over folders: what it finds, and where it stops."""

from __future__ import annotations

from pathlib import Path

from gradsync.record import write_json
from gradsync.record.walk import STUDY_FILE, walk


def run_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    write_json(folder / "config.json", {})
    return folder


def kinds(path: Path) -> list[tuple[str, Path]]:
    return [(place.kind, place.path) for place in walk(path)]


def test_a_run_is_itself_and_a_folder_is_what_is_inside(tmp_path: Path):
    first, second = run_in(tmp_path / "runs" / "a"), run_in(tmp_path / "runs" / "b")
    assert kinds(first) == [("run", first)]
    assert kinds(tmp_path / "runs") == [("run", first), ("run", second)]
    assert kinds(tmp_path) == [("run", first), ("run", second)]


def test_runs_inside_a_folder_of_an_earlier_verify_are_found(tmp_path: Path):
    """It had verify.json and the folders of its runs beside it."""
    inside = run_in(tmp_path / "runs" / "20250101-verify" / "local")
    write_json(inside.parent / "verify.json", [])
    assert kinds(tmp_path / "runs") == [("run", inside)]


def test_a_study_is_one_place_and_its_runs_are_its_own(tmp_path: Path):
    study = tmp_path / "studies" / "batch"
    run_in(study / "runs" / "a")
    write_json(study / STUDY_FILE, {})
    assert kinds(tmp_path / "studies") == [("study", study)]
    assert kinds(study / "runs") == [("run", study / "runs" / "a")]


def test_a_transport_of_an_earlier_benchmark_stands_for_the_whole(tmp_path: Path):
    whole = tmp_path / "20250101-probe"
    gloo = run_in(whole / "gloo")
    for folder in (whole, gloo):
        write_json(folder / "probe.json", {})
    assert kinds(gloo) == [("run", whole)]


def test_what_is_neither_is_told_once_by_its_own_name(tmp_path: Path):
    (tmp_path / "notes" / "deep" / "deeper").mkdir(parents=True)
    found = run_in(tmp_path / "runs" / "a")
    assert kinds(tmp_path / "notes") == [("other", tmp_path / "notes")]
    assert kinds(tmp_path) == [("other", tmp_path / "notes"), ("run", found)]


def test_it_does_not_look_for_ever(tmp_path: Path):
    too_deep = run_in(tmp_path / "a" / "b" / "c" / "d" / "run")
    assert kinds(tmp_path) == [("other", tmp_path)]
    assert kinds(too_deep.parent.parent.parent) == [("run", too_deep)]
