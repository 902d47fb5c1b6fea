"""From run folders to a document: names, sentences, tables, charts, and what is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.exhibit.form import Chart, Document, Table
from gradsync.record import SCHEMA, Run, write_json
from gradsync.study import STUDIES, Scaling
from gradsync.study.making.carry_out import Kept, held, prepare
from gradsync.study.making.document import document
from gradsync.study.making.found import collect
from made_up import made_up

SECONDS = {"local": 1.0, "gather-scatter": 0.8, "all-reduce": 0.5, "ddp": 0.4}
FAILED = {"rank": 1, "type": "OSError", "message": "no space", "traceback": "", "log": []}


def four_ways(out: Path) -> list[Run]:
    """Four workers, but for local; each hands over for a tenth of a second."""
    return [
        made_up(
            out,
            RunConfig(model="logistic", strategy=way, workers=1 if way == "local" else 4, batch_size=64, epochs=2),
            compute=seconds,
            wire=0.1 if way != "local" else 0.0,
            accuracy=0.9 - seconds / 10,
        )
        for way, seconds in SECONDS.items()
    ]


def charts(made: Document) -> dict[str, Chart]:
    return {item.title: item for item in made.exhibits if isinstance(item, Chart)}


def table(made: Document, title: str) -> dict[str, dict[str, object]]:
    (found,) = [item for item in made.exhibits if isinstance(item, Table) and item.title == title]
    names = [column.name for column in found.columns]
    return {str(row[0]): dict(zip(names, row, strict=True)) for row in found.rows}


RUNS = "logistic on synthetic · global batch 64 · 20 steps · fp32"


def test_a_comparison_becomes_sentences_tables_and_charts(tmp_path: Path):
    four_ways(tmp_path)
    made = document(collect([tmp_path]))
    assert made.title == "logistic on synthetic: 4 runs"
    first = "ddp has 2.00× the throughput of one process, at 50% of the ideal (0.50 ± 0.00 s a step)"
    assert made.summary[0] == f"{first}; all-reduce 1.67×, gather-scatter 1.11×."
    assert "A step of ddp is 80% forward and backward, 20% moving bytes." in made.summary
    assert "Test accuracy lies between 80.00% (local) and 86.00% (ddp)." in made.summary
    assert table(made, RUNS)["all-reduce"]["speed-up"] == pytest.approx(1.0001 / 0.6001)
    assert table(made, "The ledger of a step")["all-reduce"]["wire"] == pytest.approx(100)
    assert set(table(made, "Bytes of a step")) == {"gather-scatter", "all-reduce", "ddp"}
    drawn = charts(made)
    assert {"Time of a step, and where it went", "Computation against communication"} <= set(drawn)
    assert "Training loss: logistic on synthetic" in drawn
    assert "Network: what each rank sends" in drawn
    assert "Strong scaling: speed-up against one process" in drawn
    assert made.command.count("gradsync train --config") == 4
    assert made.left_out == []


def test_the_same_epoch_is_shown_everywhere(tmp_path: Path):
    """The terminal had the mean of [10, 6], the page the last."""
    study = STUDIES["batch"](model="logistic", batch_sizes=(64,), steps=20)
    (asked,) = study.plan()
    prepare(tmp_path, study, "gradsync study batch", [asked])
    run = made_up(tmp_path / "runs", asked)
    assert run.summary
    write_json(run.folder / "summary.json", run.summary.to_dict() | {"epoch_seconds": [10.0, 6.0]})
    of_study, of_run = document(collect([tmp_path])), document(collect([run.folder]))
    shown = [
        row[names.index("epoch")]
        for made in (of_study, of_run)
        for item in made.exhibits
        if isinstance(item, Table) and "epoch" in (names := [column.name for column in item.columns])
        for row in item.rows
    ]
    assert len(shown) >= 3, "in the study's own table, in the table of its runs, and of the run alone"
    assert set(shown) == {6.0}


@pytest.mark.parametrize("as_study", [True, False])
def test_scaling_over_nodes_is_one_line(tmp_path: Path, as_study: bool):
    """One worker on each of 1, 2 and 4 nodes: of a study, or of runs that were made one by one."""
    study = Scaling(model="logistic", strategies=("ddp",), node_counts=(1, 2, 4), modes=("strong",), steps=12)
    plan = study.plan()
    if as_study:
        prepare(tmp_path, study, "gradsync study scaling", plan)
    for asked in plan:
        made_up(tmp_path / "runs", asked, compute=1.0 / (asked.workers or 1), wire=0.01)
    made = document(collect([tmp_path]))
    chart = charts(made)["Strong scaling: speed-up against one process"]
    measured = [row for row in chart.rows if row["series"] == "ddp"]
    assert [row["workers"] for row in measured] == [1, 2, 4]
    assert {str(row["series"]).partition(" ")[0] for row in chart.rows} == {"ddp", "ideal", "Amdahl"}


@pytest.mark.parametrize(("accumulate", "sections"), [(None, 1), (2, 0)])
def test_runs_that_did_other_work_are_not_one_scaling(tmp_path: Path, accumulate: int | None, sections: int):
    """More accumulated batches in a step are other work: they have no speed-up over one process without."""
    one = RunConfig(model="logistic", strategy="local", workers=1, batch_size=64, steps=6)
    made_up(tmp_path, one)
    made_up(tmp_path, replace(one, strategy="ddp", workers=2, **({"accumulate": accumulate} if accumulate else {})))
    made = document(collect([tmp_path]))
    assert sum(section.title.startswith("Strong scaling") for section in made.sections) == sections


def test_one_step_shows_who_computes_and_sends(tmp_path: Path):
    four_ways(tmp_path)
    chart = charts(document(collect([tmp_path])))["One step of all-reduce: who computes, waits and sends"]
    first = [row for row in chart.rows if row["rank"] == "rank 0"]
    assert [row["part"] for row in first] == ["forward", "wire"]  # a tenth of a millisecond of data cannot be seen
    assert first[-1]["to"] == pytest.approx(600.1, abs=0.2)
    assert {row["rank"] for row in chart.rows} == {f"rank {n}" for n in range(4)}


def test_unfinished_failed_and_foreign_runs(tmp_path: Path):
    """What there is is shown; what is not a run of ours, or not one this version reads, is named."""
    config = RunConfig(model="logistic", strategy="all-reduce", workers=2, steps=6)
    whole, cut = made_up(tmp_path, config), made_up(tmp_path, config)
    (cut.folder / "summary.json").unlink()
    made_up(tmp_path, config, error=FAILED)
    for name, text in {
        "foreign": '{"learning_rate": 1}',
        "broken": "{",
        "empty": "",
    }.items():
        (tmp_path / name).mkdir()
        if text:
            (tmp_path / name / "config.json").write_text(text)
    newer = made_up(tmp_path, config)
    write_json(newer.folder / "summary.json", newer.summary.to_dict() | {"schema": SCHEMA + 1})

    found = collect([tmp_path])
    assert [run.status for run in found.runs] == ["completed", "unfinished", "failed"]
    told = " ".join(found.left_out)
    for name, why in (
        ("foreign", "not one of gradsync's"),
        ("broken", "damaged: config.json: it is not JSON"),
        ("empty", "no config.json"),
        (newer.folder.name, "from a newer gradsync"),
    ):
        assert name in told and why in told
    made = document(found)
    rows = table(made, "logistic on synthetic · global batch 64 · 6 steps · fp32")
    assert [row["status"] for row in rows.values()] == ["completed", "unfinished", "failed"]
    assert "1 run failed: all-reduce (3). Figures up to that point are shown." in made.summary
    assert any("no space" in sentence for section in made.sections for sentence in section.sentences)
    assert whole.folder in [run.folder for run in found.runs]


def test_a_folder_with_nothing_to_show_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="no run that can be shown"):
        collect([tmp_path])
    with pytest.raises(InputError, match="is not a folder"):
        collect([tmp_path / "nothing"])


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_under_way_is_shown_as_far_as_it_is(tmp_path: Path, name: str):
    """Its first run is done, its second has begun, its third failed; a folder is there for all."""
    study = STUDIES[name](steps=4)
    plan = study.plan()
    prepare(tmp_path, study, f"gradsync study {name}", plan)
    done, begun, failed = (made_up(tmp_path / "runs", config) for config in plan[:3])
    (begun.folder / "summary.json").unlink()
    write_json(failed.folder / "summary.json", failed.summary.to_dict() | {"status": "failed", "error": FAILED})
    found = collect([tmp_path])
    assert [run.folder for run in found.runs] == [done.folder, failed.folder]
    assert found.left_out == [f"{tmp_path}: {len(plan) - 2} of {len(plan)} runs are still to be made."]
    made = document(found)
    assert made.title == study.title and made.command == f"gradsync study {name}"
    assert not (begun.folder / "summary.json").exists()  # a report only reads


def test_runs_that_need_not_be_made_are_not_missing(tmp_path: Path):
    """Memory ended at the second batch size: nobody will try the third."""
    study = STUDIES["batch"](steps=4, batch_sizes=(32, 128, 512))
    plan = study.plan()
    prepare(tmp_path, study, "gradsync study batch", plan)
    for config, error in zip(plan, (None, FAILED | {"out_of_memory": True}), strict=False):
        made_up(tmp_path / "runs", config, error=error)
    assert collect([tmp_path]).left_out == []


def test_a_study_file_that_is_not_ours_is_left_out(tmp_path: Path):
    made_up(tmp_path, RunConfig(model="logistic", steps=3))
    for name, text in {
        "foreign": '{"name": "x"}',
        "older": '{"study": "batch", "settings": {"x": 1}, "plan": []}',
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.json").write_text(text)
    found = collect([tmp_path])
    assert len(found.runs) == 1
    assert len(found.left_out) == 2 and all("damaged: study.json" in text for text in found.left_out)


def test_a_damaged_run_of_a_study_is_named_and_made_again(tmp_path: Path):
    study = Scaling(model="logistic", workers=(1, 2), steps=4, modes=("strong",))
    plan = study.plan()
    prepare(tmp_path, study, "gradsync study scaling", plan)
    good, broken = (made_up(tmp_path / "runs", config) for config in plan)
    (broken.folder / "summary.json").write_bytes(b"\xff")
    found = collect([tmp_path])
    assert [run.folder for run in found.runs] == [good.folder]
    assert "1 of 2 runs are still to be made" in found.left_out[-1]
    assert found.left_out[0].startswith(f"{broken.folder}: damaged: summary.json")
    kept = Kept(tmp_path, finish=True)
    assert [bool(run) for run in kept.matched([config.to_dict() for config in plan])] == [True, False]
    assert [error.folder for error in kept.unreadable] == [broken.folder]
    assert document(found).sections
    (tmp_path / "study.json").write_text("{")
    assert [run.folder for run in collect([tmp_path]).runs] == [good.folder], "runs all the same"


def test_two_commands_do_not_make_the_runs_of_one_study(tmp_path: Path):
    with held(tmp_path), pytest.raises(InputError, match="another command is at work"), held(tmp_path):
        pass


def test_a_document_is_plain_data(tmp_path: Path):
    four_ways(tmp_path)
    made = document(collect([tmp_path]))
    for item in made.exhibits:
        if isinstance(item, Chart):
            json.dumps(list(item.rows))
            assert item.title and item.x.title and item.y.title
