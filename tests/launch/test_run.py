"""Whatever happens, a run ends with a summary."""

from __future__ import annotations

import json
import signal

import pytest

from gradsync import launch
from gradsync.cli import exit_code
from gradsync.launch import local
from gradsync.launch.processes import environment, rank_environment


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (KeyboardInterrupt(), "Interrupted", 128 + signal.SIGINT),
        (KeyboardInterrupt("SIGTERM"), "Interrupted", 128 + signal.SIGTERM),
        (ConnectionError("no rendezvous"), "ConnectionError", 1),
    ],
)
def test_a_launcher_that_fails_or_is_stopped_leaves_a_record(
    train, monkeypatch: pytest.MonkeyPatch, error: BaseException, kind: str, code: int
):
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(local, "launch", fails)
    run = train(model="logistic", workers=2)
    assert run.status == "failed"
    assert run.summary["error"]["type"] == kind
    assert json.loads((run.folder / "summary.json").read_text()) == run.summary
    assert exit_code(run) == code


def test_a_signal_during_the_summary_arrives_after_it():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
    arrived = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the point is where it is raised
        with launch.signals_held():
            signal.raise_signal(signal.SIGINT)
            arrived.append("whole")
        arrived.append("never")
    signal.signal(signal.SIGINT, before)
    assert arrived == ["whole"]


def test_what_the_user_has_set_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch):
    import os

    from gradsync.config import RunConfig

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with environment(rank_environment(RunConfig(threads=1).resolved())):
        assert os.environ["OMP_NUM_THREADS"] == "7"
        assert os.environ["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "2"
    assert "TORCH_ELASTIC_SHUTDOWN_TIMEOUT" not in os.environ
