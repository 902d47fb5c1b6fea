"""What gradsync.train and the others refuse before a process starts, and what they make of the rest."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from torch import nn

import gradsync
from gradsync.config import RunConfig
from gradsync.config.objects import name_of
from gradsync.library.runs.calls import divided, refuse_stopped
from gradsync.library.runs.frame import frame_of
from gradsync.library.runs.given import as_settings, settings_of
from made_up import made_up

LOCK = threading.Lock()


class Mine(gradsync.Strategy):
    pass


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: gradsync.train(learning_rate=1.0), "unknown setting of gradsync.train: 'learning_rate'"),
    (lambda: gradsync.train(model="vgg12"), "unknown model 'vgg12'. Did you mean vgg11?"),
    (lambda: gradsync.train(model=3), "--model is 3: it must be text"),
    (
        lambda: gradsync.train(model=lambda: LOCK),
        "--model lambda cannot be sent to the processes of a run: cannot pickle",
    ),
    (lambda: gradsync.train(model=lambda: 3), "returned int: it must return a torch.nn.Module"),
    (lambda: gradsync.train(lr=[0.1, 0.2]), "--lr is [0.1, 0.2]: it must be a number"),
    (lambda: gradsync.train(epochs=1, steps=2), "you set both --epochs and --steps"),
    (lambda: gradsync.train(workers=2, batch_size=3), "a batch of 3 does not split evenly over 2 workers"),
    (lambda: gradsync.train(strategy=dict), "dict is not a strategy: it must be a subclass of gradsync.Strategy"),
    (lambda: gradsync.train(strategy=max), "or a subclass of gradsync.Strategy itself, not an instance of one"),
    (lambda: gradsync.train(strategy=Mine, options={"size": 3}), "unknown option of Mine 'size'"),
    (lambda: gradsync.train(optimizer=object()), "a function or class that takes (parameters, lr), or a name"),
    (
        lambda: gradsync.train(strategy="notebook:Gone@0123456789ab"),
        "is an object of a Python session, and only the call",
    ),
    (lambda: gradsync.compare(strategies=[]), "--strategies is empty: name at least one"),
    (lambda: gradsync.compare(columns=["stepp"]), "unknown column 'stepp'"),
    (lambda: gradsync.compare(strategies=["dpp"]), "unknown strategy 'dpp'. Did you mean ddp"),
    (lambda: gradsync.sweep({}, lr=[]), "lr is an empty list: give it the values to try"),
    (lambda: gradsync.sweep({"lr": 0.1}), "nothing is varied: give a setting a list of values"),
    (lambda: gradsync.sweep({}, lr=["high"]), "--vary lr: 'high' is not a valid value"),
    (lambda: gradsync.sweep({}, lr=[None]), "each value that is varied must be a number, true, false, text"),
    (lambda: gradsync.sweep({}, seed=[1, 2]), "unknown setting 'seed'"),
    (lambda: gradsync.sweep(3, lr=[1]), "the base of a sweep is 3: it must be a dict of settings, or a RunConfig"),
    (lambda: gradsync.load("nowhere"), "nowhere holds no run that can be shown"),
    (lambda: gradsync.frame([3]), "gradsync.frame was given 3: it takes runs, or a folder of them"),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_what_the_command_line_refuses_is_refused_with_its_sentence(
    call: Callable[[], Any], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gradsync.InputError) as raised:
        call()
    assert sentence in str(raised.value)
    assert not list(tmp_path.iterdir())


def test_settings_are_taken_as_python_has_them(tmp_path: Path):
    (tmp_path / "run.toml").write_text("epochs = 2\nlr = 0.5\n")
    given = {"out": tmp_path, "batch_size": numpy.int64(8), "steps": 3, "config": tmp_path / "run.toml"}
    found = settings_of(RunConfig, given, "gradsync.train")
    assert found == {"out": str(tmp_path), "batch_size": 8, "steps": 3, "lr": 0.5}  # steps replaces epochs


def test_objects_that_share_a_name_and_those_named_like_built_in_ones_are_told_apart():
    def other() -> type[gradsync.Strategy]:
        class Mine(gradsync.Strategy):
            pass

        return Mine

    def logistic() -> nn.Module:
        return nn.Linear(2, 2)

    strategies = settings_of(RunConfig, {"strategy": [Mine, other(), Mine, "ring"]}, "")["strategy"]
    assert [name_of(item) for item in strategies] == ["Mine", "Mine-2", "Mine", "ring"]
    assert name_of(settings_of(RunConfig, {"model": logistic}, "")["model"]) == "logistic-2"
    assert name_of(settings_of(RunConfig, {"model": nn.Linear(2, 2)}, "")["model"]) == "Linear"


def test_lists_are_varied_and_everything_else_is_shared():
    base = as_settings(RunConfig(model="logistic", lr=0.5, decay_epochs=(1, 2)))
    shared, varied = divided({**base, "lr": numpy.array([0.1, 0.2]), "accumulate": range(1, 3), "hosts": ["a"]}, {})
    assert shared == {"model": "logistic", "decay_epochs": (1, 2), "hosts": ["a"]}
    assert varied == ("lr=0.1,0.2", "accumulate=1,2")


def test_repeats_have_their_deviation_within_each_run_and_percentages_are_numbers(tmp_path: Path):
    config = RunConfig(model="logistic", strategy="ddp", workers=2, steps=12, batch_size=64)
    frame = frame_of([made_up(tmp_path, config, accuracy=accuracy) for accuracy in (0.25, 0.75)])
    assert list(frame["accuracy (%)"]) == [25.0, 75.0]
    assert frame["step (s)"][0] == pytest.approx(0.1001)
    assert "wire-step (ms)" in frame and not frame.isna().all().any()


def test_an_interrupted_call_ends_like_any_other(tmp_path: Path):
    why = {"rank": None, "type": "Interrupted", "message": "stopped", "traceback": "", "log": [], "signal": "SIGINT"}
    config = RunConfig(model="logistic", strategy="ddp", workers=2, steps=12)
    with pytest.raises(KeyboardInterrupt, match="SIGINT"):
        refuse_stopped([made_up(tmp_path, config), made_up(tmp_path, config, error=why)])


def test_without_pandas_a_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(gradsync.InputError, match="pip install 'gradsync\\[frame\\]'"):
        frame_of([])


def test_the_public_names_are_these_and_importing_them_needs_neither_torch_nor_pandas():
    public = "attach train compare sweep load frame Strategy Comm InputError RunFailed __version__"
    code = (
        "import sys, gradsync; assert not {'torch', 'pandas', 'altair'} & set(sys.modules);"
        f"assert set(gradsync.__all__) >= set({public.split()}), gradsync.__all__;"
        "import gradsync.train.loss; from gradsync import train; assert callable(gradsync.train) and callable(train);"
        "[getattr(gradsync, name) for name in gradsync.__all__]; assert 'pandas' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
