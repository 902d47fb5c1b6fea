"""Shared by all tests: where runs go, and how to start them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from gradsync import launch
from gradsync.config import RunConfig
from gradsync.record import Run

# A busy machine makes any case slow: how long one takes says nothing.
settings.register_profile("gradsync", deadline=None)
settings.load_profile("gradsync")

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With two processes that take a file at a time: the longest files first, which are those of whole commands, then
    others that start processes, and many short ones at the end, so that neither process waits long for the other."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (item.path.parent != TESTS, not item.path.stem.endswith("_integration")))


Train = Callable[..., Run]
Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Run for real, through the launcher, into the test's own folder."""

    def run(**settings: object) -> Run:
        from gradsync.library.runs.check import resolved

        return launch.run(resolved(RunConfig(**{"out": str(tmp_path / "runs"), "threads": 1, **settings})))

    return run


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """The command line in the test's own folder, with no data in sight."""

    def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        from in_process import gradsync

        return gradsync(args, tmp_path, {"GRADSYNC_DATA": str(tmp_path / "no-data"), **environment})

    return run
