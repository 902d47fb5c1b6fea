from __future__ import annotations

from pathlib import Path

import pytest

from gradsync.errors import InputError
from gradsync.library.runs.check import suit
from gradsync.study.compare import CompareStudy
from made_up import made_up, resolved


def test_local_runs_alone_and_all_share_the_global_batch():
    study = CompareStudy(strategies=("local", "ddp"), workers=4, batch_per_worker=8, seed=3)
    local, ddp = map(resolved, suit(study.plan()))
    assert (local.workers, ddp.workers) == (1, 4)
    assert local.batch_size == ddp.batch_size == 32
    assert local.seed == ddp.seed == 3


def test_options_go_to_the_strategies_that_have_them():
    study = CompareStudy(strategies=("all-reduce", "ddp"), options={"bucket-mb": "5"})
    assert [item.options for item in suit(study.plan())] == [{}, {"bucket-mb": "5"}]


def test_an_option_none_has_and_an_empty_list_are_refused():
    with pytest.raises(InputError, match="none of local has an option"):
        suit(CompareStudy(strategies=("local",), options={"bucket-mb": "5"}).plan())
    with pytest.raises(InputError, match="name at least one"):
        CompareStudy(strategies=())


def test_the_local_run_has_nobody_to_inject_a_delay_into():
    study = CompareStudy(strategies=("local", "ddp"), inject="rank=1,where=data,ms=5")
    assert [item.inject for item in suit(study.plan())] == [None, "rank=1,where=data,ms=5"]


def test_several_numbers_of_workers_each_with_its_own_global_batch():
    study = CompareStudy(strategies=("local", "ps-sync"), workers=(1, 3), batch_per_worker=10, servers=2)
    found = list(map(resolved, suit(study.plan())))
    assert [(item.strategy, item.workers, item.batch_size, item.servers) for item in found] == [
        ("local", 1, 10, 0),
        ("ps-sync", 1, 10, 2),
        ("ps-sync", 3, 30, 2),
    ]
    with pytest.raises(InputError, match="each must be from 1 to 10,000"):
        CompareStudy(workers=(0, 2))


def test_the_first_section_is_the_table_of_runs_with_the_columns_asked_for_and_the_findings(tmp_path: Path):
    study = CompareStudy(model="logistic", strategies=("local", "ddp"), columns=("workers", "accuracy"), repeat=2)
    runs = [made_up(tmp_path, asked, wire=0.01) for asked in study.repeated(study.plan())]
    first = study.sections(runs)[0]
    (table,) = first.exhibits
    assert [column.name for column in table.columns] == ["strategy", "workers", "accuracy"]
    assert len(table.rows) == 2, "repeats are one line"
    assert first.sentences
