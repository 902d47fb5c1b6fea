"""Docs that are run: their commands, their script, their links."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BIN = Path(sys.executable).parent


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    return re.findall(r"^\$ (.+)$", "\n".join(blocks(page, "console")), re.MULTILINE)


def in_docs() -> list[tuple[str, str]]:
    return [(page.name, command) for page in PAGES for command in commands(page) if not command.startswith("make ")]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "GRADSYNC_DATA": str(folder)}
    return subprocess.run(
        shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all commands, in the order of the pages: `gradsync show runs` shows the runs before it."""
    place = tmp_path_factory.mktemp("docs")
    (place / "train_me.py").write_text(blocks(ROOT / "docs" / "library.md", "python")[0])
    return place


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("page", "command"), in_docs())
def test_every_command_in_the_docs_runs(folder: Path, page: str, command: str):
    done = run(command, folder)
    assert done.returncode == 0, done.stderr


def test_the_library_script_trains_alike_on_every_rank_and_alone(folder: Path):
    torchrun = next(command for command in commands(ROOT / "docs" / "library.md"))
    # Two processes print at once: their lines may share one line, so figures end where digits do.
    ranks = re.findall(r"rank (\d) of 2: accuracy ([\d.]+), weight (-?[\d.]+)", run(torchrun, folder).stdout)
    assert sorted(rank for rank, _, _ in ranks) == ["0", "1"]
    assert len({figures for _, *figures in map(tuple, ranks) for figures in [tuple(figures)]}) == 1
    alone = re.findall(r"rank 0 of 1: accuracy (\S+), weight (\S+)", run("python train_me.py", folder).stdout)
    assert float(alone[0][0]) > 0.9
    assert float(alone[0][1]) == pytest.approx(float(ranks[0][2]), abs=1e-6)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_the_docs_name_is_there(page: Path):
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    named = re.findall(r"(?<!-)\b(?:src|tests|benchmarks|docs)/[\w/.-]*\w", text)
    missing = [link for link in links if not (page.parent / link).exists()]
    missing += [name for name in named if not (ROOT / name).exists()]
    assert not missing


def test_the_readme_shows_the_two_commands():
    assert {"make demo", "make test"} <= set(commands(ROOT / "README.md"))
