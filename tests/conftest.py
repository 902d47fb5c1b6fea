"""Shared by all tests: where runs go, and how to start them."""

from __future__ import annotations

import os
import subprocess
import sys
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
    """The command line in a process of its own, in the test's own folder, with no data in sight."""

    def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gradsync.cli", *args],
            cwd=tmp_path,
            env={**os.environ, "GRADSYNC_DATA": str(tmp_path / "no-data"), **environment},
            capture_output=True,
            text=True,
            timeout=100,
        )

    return run
