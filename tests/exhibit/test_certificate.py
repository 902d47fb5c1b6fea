"""The equivalence certificate as a table and one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhibited import column, exhibits_of, steps_of, text, with_figures
from gradsync.exhibit.certificate import conformance, section
from gradsync.exhibit.form import Table
from gradsync.exhibit.runs.sections import sections
from gradsync.record import Run
from gradsync.record.certificate import Certificate, Check, Verdict, write_certificate


def certified(
    out: Path, strategy: str, verdict: Verdict, distance: float | None = 1e-9, differs: str = "", seed: int = 0
) -> Run:
    run = steps_of(out, strategy, 2, 0.1, steps=20, precision="fp64", seed=seed)
    same = None if verdict == "failed" else verdict != "wrong"
    write_certificate(
        run.folder,
        Certificate(reference="local", distance=distance, same_bits=same, verdict=verdict, differs=differs),
    )
    return run


def table_of(*runs: Run) -> Table:
    (table,) = section(runs).exhibits
    assert isinstance(table, Table)
    return table


def test_every_verified_run_has_a_line_and_the_reference_has_none(tmp_path: Path):
    local = steps_of(tmp_path, "local", 1, 0.1, steps=20, precision="fp64")
    runs = [
        local,
        certified(tmp_path, "ddp", "exact", 0.0),
        certified(tmp_path, "bf16", "approximate by design", 3.14e-3, "gradients are rounded to bf16"),
        certified(tmp_path, "none", "wrong", 0.5, "parameters differ"),
        certified(tmp_path, "ring", "failed", None, "OSError"),
    ]
    table = table_of(*runs)
    assert table.title == "logistic, 20 steps of 64 samples in fp64, against one process"
    assert column(table, "strategy") == ["ddp", "bf16", "none", "ring"]
    names = ("largest distance", "same bits on all ranks", "verdict", "what differs, and why")
    index = [[item.name for item in table.columns].index(name) for name in names]
    assert [[row[n] for n in index] for row in table.texts()] == [
        ["0.0e+00", "yes", "exact", "–"],
        ["3.1e-03", "yes", "approximate by design", "gradients are rounded to bf16"],
        ["5.0e-01", "no", "wrong", "parameters differ"],
        ["–", "–", "failed", "OSError"],
    ]
    assert section(runs).sentences == ["2 of 4 do not produce the same model as one process: none on 2, ring on 2."]


def test_what_is_approximate_by_design_is_no_pass(tmp_path: Path):
    exact = certified(tmp_path, "ddp", "equal to rounding")
    assert section([exact]).sentences == ["1 of 1 produce the same model as one process."]
    lossy = certified(tmp_path, "bf16", "approximate by design")
    assert section([exact, lossy]).sentences == [
        "1 of 2 produce the same model as one process; 1 is approximate by design, which does not count as a pass."
    ]


def test_transports_and_seeds_are_named_where_they_differ(tmp_path: Path):
    runs = [with_figures(certified(tmp_path, "ddp", "wrong"), transport=name) for name in ("gloo", "mpi")]
    assert column(table_of(*runs), "transport") == ["gloo", "mpi"]
    assert section(runs).sentences[0].endswith("ddp on 2 over gloo, ddp on 2 over mpi.")
    assert column(table_of(runs[0]), "transport") == [None]
    repeated = [certified(tmp_path, "ddp", "exact", seed=seed) for seed in (0, 1)]
    assert column(table_of(*repeated), "strategy") == ["ddp, seed 0", "ddp, seed 1"]


def test_loops_that_hold_share_a_row_and_a_detail_has_them_all(tmp_path: Path):
    def tried(strategy: str, **holds: bool | None) -> Run:
        run = certified(tmp_path, strategy, "exact")
        checks = [Check(name="same start", holds=True, found="it is")]
        checks += [Check(name=name, holds=each, found="1e-15", in_loop=True) for name, each in holds.items()]
        whole = Certificate(
            reference="local", distance=0.0, same_bits=True, verdict="exact", differs="", checks=checks
        )
        write_certificate(run.folder, whole)
        return run

    runs = [tried("ddp", plain=True, clipped=True), tried("mine", plain=True, clipped=False, compiled=None)]
    runs.append(tried("lossy", plain=None, clipped=None))
    shown, loops = conformance(runs)
    assert [row[:3] for row in shown.exhibits[0].rows] == [
        *(["ddp", "same start", "yes"], ["ddp", "training loops", "yes"]),
        *(["mine", "same start", "yes"], ["mine", "clipped", "no"], ["mine", "training loops", "yes"]),
        *(["lossy", "same start", "yes"], ["lossy", "training loops", "–"]),
    ]
    assert [row[3] for row in shown.exhibits[0].rows if row[1] == "training loops"] == [
        "2 ways of writing them, as in one process",
        "1 way of writing them, as in one process; 1 not judged",
        "2 ways of writing them, not judged",
    ]
    assert shown.sentences == ["mine does not do what a strategy must: clipped."]
    assert loops.detail and not shown.detail
    assert [row[:3] for row in loops.exhibits[0].rows if row[0] == "mine"] == [
        ["mine", "plain", "yes"],
        ["mine", "clipped", "no"],
        ["mine", "compiled", "–"],
    ]


def test_runs_that_were_verified_show_it_wherever_they_are_shown(tmp_path: Path):
    run = certified(tmp_path, "ddp", "exact")
    titles = [item.title for item in sections([run])]
    assert "Equivalence certificate" in titles
    assert "Equivalence certificate" not in [item.title for item in sections([steps_of(tmp_path, "ddp", 2, 0.1)])]
    assert section([steps_of(tmp_path, "ddp", 2, 0.1)]).exhibits == []


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_name_is_split_at_any_width(tmp_path: Path, width: int):
    why = "gradients are rounded to bfloat16 before they are added up, as is asked for"
    run = certified(tmp_path, "powersgd", "approximate by design", 1e-2, why)
    shown = text(table_of(run), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "approximate by design" in " ".join(shown.split())
    assert exhibits_of([section([run])])
