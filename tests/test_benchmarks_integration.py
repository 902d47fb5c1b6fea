"""Every benchmark still runs from start to end: --smoke is the same code on tiny sizes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STARTED_BY_ANOTHER = {"bare_ddp"}  # by overhead
PROGRAMS = sorted(path for path in (ROOT / "benchmarks").rglob("*.py") if "__main__" in path.read_text())


def place(program: Path) -> str:
    return program.relative_to(ROOT).as_posix()


def test_the_benchmarks_were_found():
    assert len(PROGRAMS) >= 8


@pytest.mark.parametrize(
    "program", [path for path in PROGRAMS if path.stem not in STARTED_BY_ANOTHER], ids=lambda path: path.stem
)
def test_a_benchmark_runs(program: Path, tmp_path: Path):
    """Started from a folder with nothing in it, where it leaves nothing."""
    environment = {**os.environ, "GRADSYNC_DATA": str(tmp_path / "no-data")}
    command = [sys.executable, str(program), "--smoke"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_its_first_lines_tell_the_command_and_the_time(program: Path):
    text = ast.get_docstring(ast.parse(program.read_text())) or ""
    assert f"python {place(program)} " in text
    assert "about" in text.lower()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_make_bench_runs_it(program: Path):
    assert f"{place(program)}\n" in (ROOT / "Makefile").read_text()
