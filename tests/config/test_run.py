from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradsync.config import Injection, RunConfig, load, parse_injection, read_file
from gradsync.errors import InputError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "--workers is 0: it must be from 1 to 10,000"),
        ({"workers": -1}, "--workers is -1"),
        ({"batch_size": 8, "batch_per_worker": 4}, "both --batch-size and --batch-per-worker"),
        ({"epochs": 1, "steps": 4}, "both --epochs and --steps"),
        ({"lr": float("nan")}, "--lr is nan"),
        ({"workers": "two"}, "--workers is 'two': it must be a whole number"),
        ({"workers": True}, "--workers is True"),
        ({"precision": "fp8"}, "one of fp64, fp32, bf16"),
        ({"options": 3}, "--options is 3: it must be a table"),
        ({"inject": "rank=1"}, "must read rank=R,where=W,ms=T"),
        ({"inject": "rank=1,where=disk,ms=3"}, "data, forward, backward, link"),
        ({"inject": "rank=-1,where=data,ms=3"}, "a rank from 0"),
        ({"inject": "rank=1,where=data,ms=inf"}, "milliseconds from 0"),
        ({"inject": "rank=1,where=data,ms=3,hour=1"}, "it must read"),
    ],
)
def test_bad_values_are_refused_with_the_flag_and_what_is_allowed(settings: dict, message: str):
    with pytest.raises(InputError, match=message):
        RunConfig(**settings)


def test_config_json_reads_back_as_the_same_config(tmp_path: Path):
    config = RunConfig(model="logistic", workers=2, options={"bucket-mb": "5"}, lr=0.5)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_dict()))
    assert load(path) == config


def test_broken_toml_names_file_and_line(tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text('model = "vgg11"\nworkers = \n')
    with pytest.raises(InputError, match=r"run\.toml is not valid TOML.*line 2"):
        read_file(path, RunConfig)


def test_unknown_setting_in_a_file_shows_the_nearest(tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text("batch-sise = 3\n")
    with pytest.raises(InputError, match="Did you mean batch_size"):
        read_file(path, RunConfig)


def test_json_that_is_no_table_is_refused(tmp_path: Path):
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(InputError, match="must hold a table of settings"):
        read_file(tmp_path / "list.json", RunConfig)


def test_missing_config_file_is_a_sentence(tmp_path: Path):
    with pytest.raises(InputError, match="cannot read the config file"):
        read_file(tmp_path / "none.toml", RunConfig)


def test_an_injection_hits_one_rank_at_one_place():
    found = parse_injection("ms=200, rank=2,where=forward")
    assert found == Injection(rank=2, where="forward", seconds=0.2)
    assert found.delay(2, "forward") == 0.2
    assert found.delay(1, "forward") == found.delay(2, "data") == 0.0
    assert parse_injection(None) is None
