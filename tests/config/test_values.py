"""What a value of any setting must be: limits that hold before anything is made of it, and text on one line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradsync.config import RunConfig, Shape
from gradsync.config.probe import ProbeConfig
from gradsync.config.values import LIMITS, must_be, one_line, parsed, quantity, shown, types_of
from gradsync.errors import InputError
from gradsync.study import STUDIES
from gradsync.study.compare import CompareStudy
from gradsync.study.verify import VerifyStudy
from made_up import resolved

KINDS = [RunConfig, CompareStudy, VerifyStudy, ProbeConfig, Shape, *STUDIES.values()]
ABSURD = [10**9, 10**18, 10**30, 16**5000, -1, -(10**30), 1e308, float("inf"), float("-inf"), float("nan")]


def numbers_of(kind: type) -> list[str]:
    """The settings that are numbers, or lists of them."""
    names = [item.name for item in fields(kind)]
    return [name for name in names if {int, float} & set(leaves(types_of(kind)[name]))]


def leaves(hint: object) -> list[object]:
    return [leaf for item in get_args(hint) for leaf in leaves(item)] or [hint]


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_that_is_a_number_has_limits(kind: type):
    assert set(numbers_of(kind)) <= {*LIMITS, "label_smoothing"}  # which is less than 1, not at most


@pytest.mark.parametrize("kind", KINDS)
def test_absurd_sizes_are_refused_at_once(kind: type):
    for name in numbers_of(kind):
        for value in ABSURD:
            several = any(hint is Ellipsis for hint in leaves(types_of(kind)[name]))
            if value == 10**9 and name in ("steps", "log_every", "seed"):
                continue  # nothing of that size is made
            if name == "lr" and 0 <= value < 1e38:
                continue  # a large one is how training is made to diverge
            with pytest.raises(InputError, match="--"):
                kind(**{name: (value,) if several else value})


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"workers": 10**6}, "--workers is 1000000: it must be from 1 to 10,000."),
        ({"seed": 2**64}, "--seed is 18446744073709551616: it must be from 0 to 2,147,483,647."),
        ({"lr": 1e308}, "--lr is 1e\\+308: it must be from 0 to 1e\\+38."),
        ({"decay_epochs": (1, -2)}, "--decay-epochs has -2: each must be from 0 to 1,000,000."),
        ({"threads": 16**5000}, "--threads is too long to show: it must be from 1 to 1,024."),
        ({"hosts": ("a",) * 1001}, "--hosts has 1,001 values: it takes at most 1,000."),
        ({"inject": "rank=0,where=data,ms=1e308"}, "milliseconds from 0 to 3600000"),
        ({"memory": "20MB"}, "--memory is 20MB: it must be more than 300MB"),
        ({"latency": "1e9s"}, "--latency is 1e9s: it must be more than 0s, and at most 60s"),
        ({"options": {"bucket-mb": [1]}}, r"--options.bucket-mb is \[1\]: it must be text, true, false, or a number"),
    ],
)
def test_the_sentence_tells_what_is_allowed(settings: dict, sentence: str):
    with pytest.raises(InputError, match=sentence):
        RunConfig(**settings)


def test_sizes_that_only_come_to_be_together():
    with pytest.raises(InputError, match="make a batch of 2,000,000 samples: the limit is 1,000,000"):
        resolved(RunConfig(workers=2, batch_per_worker=10**6))
    with pytest.raises(InputError, match="needs 2,000 processes on this machine: the limit is 1,024"):
        resolved(RunConfig(workers=2000, batch_size=2000))
    assert resolved(RunConfig(workers=2000, batch_size=2000, launcher="slurm")).processes == 2000
    with pytest.raises(InputError, match="no batch of up to 1,000,000 samples splits evenly over all these"):
        VerifyStudy(workers=(997, 991, 983))


@pytest.mark.parametrize("kind", [*STUDIES.values(), CompareStudy])
def test_a_plan_of_a_million_runs_is_never_made(kind: type):
    with pytest.raises(InputError, match="runs: one command makes at most 10,000"):
        kind(workers=tuple(range(2, 1002)), strategies=("ps-sync",) * 1000)


def test_a_sweep_counts_its_combinations():
    grid = [f"{name}={','.join(map(str, range(1, 30)))}" for name in ("epochs", "batch-size", "threads")]
    with pytest.raises(InputError, match="24,389 runs"):
        STUDIES["sweep"](vary=tuple(grid))
    assert STUDIES["sweep"](vary=tuple(grid[:2])).runs_at_most == 841


@settings(deadline=None)
@given(name=st.sampled_from(sorted(LIMITS)), value=st.one_of(st.integers(), st.floats()))
def test_a_number_is_taken_or_refused_by_its_limits(name: str, value: float):
    if name not in types_of(RunConfig) or name == "decay_epochs":
        return
    wanted = isinstance(value, int) or float in leaves(types_of(RunConfig)[name])
    least, most = LIMITS[name]
    try:
        config = RunConfig(**{name: value})
    except InputError:
        assert not wanted or not least <= value <= most
    else:
        assert wanted and least <= getattr(config, name) <= most


@pytest.mark.parametrize("text", ["1e300GB", "1e308GB", "infGB", "nanMB", "GB", "", "1", "9" * 400 + "GB"])
def test_a_quantity_that_is_no_number_is_refused(text: str):
    with pytest.raises(InputError, match="it must be a number with GB, for instance 4GB"):
        quantity("memory", text, {"GB": 1e9}, "4GB")


NAMES = ["partition", "account", "time", "out", "remote_python", "ssh", "mpiexec", "model", "data", "cluster"]


@given(
    name=st.sampled_from([*NAMES, "hosts", "sbatch", "options"]),
    text=st.text(),
    where=st.sampled_from("\n\r\x1b\0\x85\u2028\u2029\x7f"),
)
def test_a_line_break_or_control_character_is_refused_wherever_it_stands(name: str, text: str, where: str):
    value = text + where + text
    values = {"hosts": (value,), "sbatch": (value,), "options": {"x": value}}
    with pytest.raises(InputError, match=r"it must be plain text|characters: the limit is"):
        RunConfig(**{name: values.get(name, value)})


def test_ordinary_text_in_any_script_is_taken():
    for text in ("/home/ärger/läufe", "日本 語", "a 'b' \"c\" $d", "🙂"):
        one_line("--out", text)
        assert RunConfig(out=text).out == text


@given(st.recursive(st.one_of(st.integers(), st.text(), st.none()), st.lists))
def test_what_is_shown_of_a_value_is_short_and_on_one_line(value: object):
    assert len(shown(value)) <= 61
    assert "\n" not in shown(value)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("3", int, 3),
        ("3", int | None, 3),
        ("0.5", float | None, 0.5),
        ("True", bool, True),
        ("sgd", Literal["sgd", "adam"], "sgd"),
        ("1,2,", tuple[int, ...], (1, 2)),
        ("a b", str | None, "a b"),
        ("x/y", Path, Path("x/y")),
        ("5", int | float | str, 5),
        ("5.5", int | float | str, 5.5),
    ],
)
def test_text_becomes_a_value_of_its_type(text: str, kind: Any, value: object):
    assert parsed(text, kind) == value
    assert type(parsed(text, kind)) is type(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("x", int), ("1.5", int | None), ("yes", bool), ("sdg", Literal["sgd"]), ("1,x", tuple[int, ...])],
)
def test_text_that_is_no_value_of_its_type_is_refused(text: str, kind: Any):
    with pytest.raises(ValueError, match=f"is not {must_be(kind)}"):
        parsed(text, kind)
