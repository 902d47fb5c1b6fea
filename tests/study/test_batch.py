"""The study of batch sizes, of runs with known times."""

from __future__ import annotations

from pathlib import Path

import pytest

from exhibited import column, tables_of
from gradsync.exhibit.remarks import ONE_RUN_EACH
from gradsync.figures.value import Spread
from gradsync.study.batch import BatchStudy
from made_up import made_up

OUT_OF_MEMORY = {"rank": 0, "type": "ProcessDied", "message": "", "traceback": "", "log": [], "out_of_memory": True}
TABLE = "Time of an epoch by batch size"


def test_batches_grow_by_four_until_the_training_set_ends():
    assert [config.batch_size for config in BatchStudy(data="cifar10").plan()] == [32, 128, 512, 2048, 8192, 32768]
    assert [config.batch_size for config in BatchStudy(train_samples=600).plan()] == [32, 128, 512]
    assert {config.epochs for config in BatchStudy().plan()} == {2}
    assert {(config.epochs, config.steps) for config in BatchStudy(steps=5).plan()} == {(None, 5)}


def test_what_does_not_fit_is_the_limit_and_nothing_larger_is_tried(tmp_path: Path):
    study = BatchStudy(model="logistic", batch_sizes=(32, 128, 512))
    small, middle, large = study.plan()
    runs = [made_up(tmp_path, small, compute=0.1), made_up(tmp_path, middle, error=OUT_OF_MEMORY)]
    assert not study.is_needless(middle, runs[:1])
    assert study.is_needless(large, runs)
    sections = study.sections(runs)
    assert column(tables_of(sections)[TABLE], "remark") == ["", "out of memory"]
    assert column(tables_of(sections)[TABLE], "epoch") == [pytest.approx(1.001), None]
    assert "Batches of 128 did not fit into memory" in sections[0].sentences[-1]


def test_an_epoch_without_data_is_the_second_one_without_its_data_phases(tmp_path: Path):
    study = BatchStudy(model="logistic", batch_sizes=(32, 64))
    runs = [
        made_up(tmp_path, config, compute=seconds) for config, seconds in zip(study.plan(), (0.2, 0.1), strict=True)
    ]
    table = tables_of(study.sections(runs))[TABLE]
    assert column(table, "epoch without data loading") == [pytest.approx(2.0), pytest.approx(1.0)]
    assert column(table, "epoch") == [pytest.approx(2.001), pytest.approx(1.001)]
    assert study.sections(runs)[0].sentences[0].endswith("2.00× as fast, and the fastest of all.")
    assert study.sections(runs)[0].sentences[1] == ONE_RUN_EACH


def test_which_batch_size_is_the_fastest_is_undecided_within_the_uncertainty(tmp_path: Path):
    study = BatchStudy(model="logistic", batch_sizes=(32, 64, 128))

    def told(*seconds: float) -> str:
        made = [made_up(tmp_path, config, compute=each) for config, each in zip(study.plan(), seconds, strict=True)]
        return study.sections(made)[0].sentences[0]

    assert told(0.2, 0.1, 0.101).endswith(
        "2.00× as fast. It is undecided which batch size is the fastest: 128 is within the uncertainty."
    )
    assert told(0.101, 0.1, 0.3).endswith(
        "with batches of 32: no larger batch is faster by more than the uncertainty."
    )


def test_how_much_faster_a_batch_size_is_has_the_uncertainty_of_repeats(tmp_path: Path):
    study = BatchStudy(model="logistic", batch_sizes=(32, 64), repeat=2)
    plan = study.repeated(study.plan())
    runs = [made_up(tmp_path, asked, compute=each) for asked, each in zip(plan, (0.5, 0.2, 0.5, 0.21), strict=True)]
    (told,) = study.sections(runs)[0].sentences
    assert told.endswith("2.44 ± 0.08× as fast, and the fastest of all.")


def test_repeats_become_mean_and_spread(tmp_path: Path):
    study = BatchStudy(model="logistic", batch_sizes=(32,), repeat=3)
    plan = study.repeated(study.plan())
    assert [config.seed for config in plan] == [0, 1, 2]
    runs = [made_up(tmp_path, config, compute=seconds) for config, seconds in zip(plan, (0.1, 0.2, 0.3), strict=True)]
    (value,) = column(tables_of(study.sections(runs))[TABLE], "step")
    assert isinstance(value, Spread)
    assert value.mean == pytest.approx(0.2001)
    assert value.deviation == pytest.approx(0.1)
