"""Docs that are run: their commands, their scripts, their links, and what scripts write into them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gradsync.errors import InputError
from in_process import gradsync
from root import needs_cpu_shares, needs_root

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FIRST = [ROOT / "README.md", DOCS / "README.md", DOCS / "tutorial.md"]
PAGES = [*FIRST, *sorted({*DOCS.rglob("*.md")} - {*FIRST}, key=lambda page: page.name)]
BIN = Path(sys.executable).parent


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    return re.findall(r"^\$ (.+)$", "\n".join(blocks(page, "console")), re.MULTILINE)


def in_docs() -> list[object]:
    """Every command once, however many pages have it. torchrun has a test of its own."""
    found = dict.fromkeys(command for page in PAGES for command in commands(page))
    return [
        pytest.param(command, marks=[needs_root, needs_cpu_shares] if "--bandwidth" in command else [])
        for command in found
        if command.startswith("gradsync ")
    ]


def environment(folder: Path) -> dict[str, str]:
    """That of a shell in which the virtual environment is active."""
    return {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "GRADSYNC_DATA": str(folder)}


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment(folder)}
    return subprocess.run(
        shlex.split(command), cwd=folder, env=variables, capture_output=True, text=True, timeout=200
    )


def test_the_command_is_installed(tmp_path: Path):
    assert run("gradsync --version", tmp_path).stdout.startswith("gradsync ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all commands, in the order of the pages: `gradsync show` shows the runs before it."""
    place = tmp_path_factory.mktemp("docs")
    (place / "train_me.py").write_text(blocks(DOCS / "using" / "library.md", "python")[0])
    (place / "mine.py").write_text(blocks(DOCS / "tutorial.md", "python")[0])
    (place / "ordinary.py").write_text(blocks(DOCS / "using" / "watch.md", "python")[0])
    (place / "houses.py").write_text(blocks(DOCS / "using" / "tasks.md", "python")[0])
    return place


@pytest.mark.timeout(240)
@pytest.mark.parametrize("command", in_docs())
def test_every_command_in_the_docs_runs(folder: Path, command: str):
    done = gradsync(shlex.split(command)[1:], folder, environment(folder))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_library_script_trains_alike_on_every_rank_and_alone(folder: Path):
    torchrun = next(command for command in commands(DOCS / "using" / "library.md") if command.startswith("torchrun "))
    # Two processes print at once: their lines may share one line, so figures end where digits do.
    ranks = re.findall(r"rank (\d) of 2: accuracy ([\d.]+), weight (-?[\d.]+)", run(torchrun, folder).stdout)
    assert sorted(rank for rank, _, _ in ranks) == ["0", "1"]
    assert len({figures for _, *figures in map(tuple, ranks) for figures in [tuple(figures)]}) == 1
    alone = re.findall(r"rank 0 of 1: accuracy (\S+), weight (\S+)", run("python train_me.py", folder).stdout)
    assert float(alone[0][0]) > 0.9
    assert float(alone[0][1]) == pytest.approx(float(ranks[0][2]), abs=1e-6)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_heading_the_docs_name_is_there(page: Path):
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    named = re.findall(r"(?<!-)\b(?:src|tests|benchmarks|docs)/[\w/.-]*\w", text)
    missing = [link for link in links if not (page.parent / link).exists()]
    missing += [name for name in named if not (ROOT / name).exists()]
    for target, heading in re.findall(r"\]\(([^)#:]+\.md)#([^)]+)\)", text):
        if heading not in headings(page.parent / target):
            missing.append(f"{target}#{heading}")
    assert not missing


def test_the_index_of_the_docs_begins_with_the_tutorial_and_leads_to_every_page():
    linked = re.findall(r"^- \[[^]]+\]\(([^)#]+)\)", (DOCS / "README.md").read_text(), re.MULTILINE)
    assert linked[0] == "tutorial.md"
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*") if path.suffix in (".md", ".ipynb")}
    assert sorted(linked) == sorted(pages - {"README.md"})


def headings(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("script", ["import_graph.py", "figure_table.py"])
def test_what_scripts_write_into_the_docs_is_up_to_date(script: str):
    done = subprocess.run([sys.executable, DOCS / "scripts" / script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_readme_shows_the_two_commands_and_answers_twelve_questions():
    assert {"make demo", "make test"} <= set(commands(ROOT / "README.md"))
    table = (ROOT / "README.md").read_text().split("| question |")[1].split("\n\n")[0]
    assert len(re.findall(r"^\| .+\?.* \|$", table, re.MULTILINE)) == 12


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_a_page_shows_is_read_as_it_is_written(page: Path):
    """Also those within text and tables: they are parsed, and not carried out. NAME, ... stand for something else."""
    text = re.sub(r"\\\n\s+", " ", page.read_text())
    shown = re.findall(r"^(?:    |\$ )?(gradsync [a-z].*)$", text, re.MULTILINE)
    shown += re.findall(r"`(gradsync [a-z][^`\n]*)`", text)
    for command in shown:
        words = shlex.split(command, comments=True)[1:]
        if not re.search(r"[A-Z]{3}|\.\.\.|[\[>]|\.toml", command):
            assert refusal_of(words) is None, command


def refusal_of(words: list[str]) -> str | None:
    """Why the command line is refused; not where it names a command without its arguments or its subcommand."""
    from gradsync.cli.arguments import parse

    try:
        parse(words)
    except InputError as error:
        return None if re.search(r" needs [A-Z]{2}|Name one of", str(error)) else str(error)
    return None
