"""gradsync report: every format from folders alone, where there is no torch at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Cli
from gradsync.config import RunConfig
from made_up import made_up

WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"no {name} here")

sys.meta_path.insert(0, Missing())
from gradsync.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    for way, workers in (("local", 1), ("ddp", 2)):
        made_up(place, RunConfig(model="logistic", strategy=way, workers=workers, epochs=2), wire=0.01)
    (place / "notes").mkdir()
    return place


def without_torch(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, "report", *args], capture_output=True, text=True, timeout=100
    )


def test_the_page_is_made_without_torch_and_says_what_is_left_out(runs: Path, tmp_path: Path):
    done = without_torch(str(runs), "-o", str(tmp_path / "page.html"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "page.html")]
    assert f"left out: {runs / 'notes'}: not a run of gradsync" in done.stderr
    page = (tmp_path / "page.html").read_text()
    assert "ddp" in page and "not a run of gradsync" in page and len(page) < 2_000_000


@pytest.mark.parametrize(
    ("out", "form", "first"),
    [
        ("r.md", None, "r.md"),
        ("r.tex", None, "r.tex"),
        ("r.json", None, "r.json"),
        ("tables", "csv", "tables"),
        ("charts", "svg", "charts"),
    ],
)
def test_the_format_follows_the_name_or_is_said(runs: Path, tmp_path: Path, out: str, form: str | None, first: str):
    asked = ["--format", form] if form else []
    done = without_torch(str(runs), "-o", str(tmp_path / out), *asked)
    assert done.returncode == 0, done.stderr
    written = [Path(line) for line in done.stdout.splitlines()]
    assert written and all(path.stat().st_size for path in written)
    assert written[0] == tmp_path / first or written[0].parent == tmp_path / first
    if out.endswith("json"):
        assert json.loads(written[0].read_text())["title"] == "logistic on synthetic: 2 runs"


def test_bad_input_is_a_sentence(cli: Cli, runs: Path, tmp_path: Path):
    for args, message in (
        (("nothing",), "nothing is not a folder"),
        ((str(tmp_path),), "no run that can be shown"),
        ((str(runs), "--open", "--format", "md"), "--open shows a page"),
        ((str(runs), "-o", "/proc/nothing/page.html"), "/proc/nothing"),
    ):
        done = cli("report", *args)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert message in done.stderr and "Traceback" not in done.stderr
