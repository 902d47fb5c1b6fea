"""In which settings runs differ, and how these are said."""

from __future__ import annotations

from typing import Any

import pytest

from gradsync.config import RunConfig, objects
from gradsync.figures.differences import said, settings, varied


def test_the_settings_in_which_runs_differ_are_found_in_their_order_and_the_seed_last():
    plan = [
        RunConfig(seed=seed, lr=lr, workers=2, options={"bucket-mb": size}).to_dict()
        for seed, lr in ((0, 0.1), (1, 0.2))
        for size in (1, 5)
    ]
    assert varied(plan) == ["lr", "options.bucket-mb", "seed"]
    assert settings(plan[0])["options.bucket-mb"] == "1"
    assert varied(plan[:1]) == varied([]) == []


def test_an_option_of_one_run_alone_is_a_difference():
    plan = [RunConfig(options=options).to_dict() for options in ({}, {"bucket-mb": 5})]
    assert varied(plan) == ["options.bucket-mb"]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("lr", 0.1, "learning rate 0.1"),
        ("lr", None, ""),
        ("precision", "bf16", "bf16"),
        ("momentum", 0.0, "momentum 0.0"),
        ("clip_norm", 1.0, "clip norm 1.0"),
        ("compile", True, "compile"),
        ("compile", False, "no compile"),
        ("metric", ("rmse", "accuracy"), "metric rmse,accuracy"),
        ("metric", (), ""),
        ("model_options.width", "64", "width 64"),
        ("cpus", 0.5, "0.5 cores per node"),
        ("latency", "1ms", "1ms latency"),
    ],
)
def test_a_setting_is_said_in_words(name: str, value: Any, words: str):
    assert said(name, value) == words


def test_an_object_of_a_notebook_is_said_by_its_name():
    assert said("loss", objects.remember(abs, "mine", "loss")) == "loss mine"
