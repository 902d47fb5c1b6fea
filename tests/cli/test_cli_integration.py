"""The commands for real, small."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from gradsync.cli.main import main

SMALL = ["--model", "logistic", "--batch-size", "12", "--train-samples", "60", "--test-samples", "30"]


def test_train_prints_lines_in_a_pipe_then_the_table_and_the_folder(cli, tmp_path: Path):
    done = cli("train", *SMALL, "--workers", "2", "--epochs", "2", "--log-every", "4")
    assert done.returncode == 0, done.stderr
    assert "ddp: logistic on synthetic, 7,850 parameters" in done.stdout
    assert "step 4/10" in done.stdout
    assert "step 8/10" in done.stdout
    assert "step 5/10" not in done.stdout
    assert "accuracy" in done.stdout
    assert re.search(r"\d+\.\d\d%", done.stdout)
    folder = tmp_path / done.stdout.strip().splitlines()[-1]
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "logs",
        "rank-0.jsonl",
        "rank-1.jsonl",
        "resolved.json",
        "summary.json",
    }
    assert "\x1b" not in done.stdout


def test_train_json_is_all_there_is_on_stdout(cli):
    done = cli("train", *SMALL, "--steps", "3", "--json")
    summary = json.loads(done.stdout)
    assert (summary["status"], summary["world_size"], summary["steps"]) == ("completed", 1, 3)
    assert "local: logistic" in done.stderr


def test_compare_runs_all_ways_and_ends_in_one_table_that_show_repeats(cli, tmp_path: Path):
    done = cli("compare", *SMALL, "--workers", "2")
    assert done.returncode == 0, done.stderr
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    ways = ("local", "gather-scatter", "all-reduce", "ddp")
    table = [next(line for line in lines if line.startswith(f"{way} ")) for way in ways]
    assert lines[-2:] == ["studies/compare", "studies/compare/report.html"]
    shown = cli("show", "studies")
    assert shown.returncode == 0, shown.stderr
    assert all(line in [row.rstrip() for row in shown.stdout.splitlines()] for line in table)
    assert "gradsync compare" in (tmp_path / lines[-1]).read_text()

    again = cli("compare", *SMALL, "--workers", "2", "--json")
    assert "4 of 4 runs are finished already" in again.stderr
    found = json.loads(again.stdout)
    runs = found["runs"]
    assert [run["world_size"] for run in runs] == [1, 2, 2, 2]
    assert len({run["batch_size"] for run in runs}) == 1
    of_page = {"title", "summary", "sections", "command", "environment", "left_out"}
    assert set(found) == {"study", "folder", "report", "runs"} | of_page

    # A run killed outright leaves no summary, a failed one an error: both are shown as what they are.
    (Path(tmp_path, runs[3]["folder"]) / "summary.json").unlink()
    failed = Path(tmp_path, runs[2]["folder"]) / "summary.json"
    error = {"rank": 1, "type": "OSError", "message": "the disk is full", "traceback": "", "log": []}
    failed.write_text(json.dumps({**json.loads(failed.read_text()), "status": "failed", "error": error}))
    shown = cli("show", "studies/compare")
    assert "1 of 4 runs are still to be made" in shown.stdout
    assert "failed on rank 1: OSError: the disk is full" in shown.stdout
    assert cli("report", "studies", "-o", "page.md").returncode == 0
    text = (tmp_path / "page.md").read_text()
    assert "still to be made" in text and "the disk is full" in text


def test_a_failed_run_in_compare_is_told_and_the_others_still_run(cli, tmp_path: Path):
    (tmp_path / "own.py").write_text(
        "import os, torch\n"
        "class OnlyAlone(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        assert os.environ['WORLD_SIZE'] == '1', 'only alone'\n"
        "        return super().forward(x.flatten(1))\n"
        "def build():\n"
        "    return OnlyAlone(3072, 10)\n"
    )
    done = cli("compare", "--model", "own.py:build", "--strategies", "ddp", "local", "--steps", "3")
    assert done.returncode == 1
    assert "failed on rank" in done.stderr
    assert "only alone" in done.stderr
    table = done.stdout.partition("strategy")[2]
    assert re.search(r"ddp .* failed", table) and re.search(r"local .* completed", table)


def test_own_data_with_loader_processes(cli, tmp_path: Path):
    (tmp_path / "own.py").write_text(
        "import torch\n"
        "class Points(torch.utils.data.Dataset):\n"
        "    def __init__(self, n):\n"
        "        self.x = torch.randn(n, 2, generator=torch.Generator().manual_seed(n))\n"
        "    def __len__(self):\n"
        "        return len(self.x)\n"
        "    def __getitem__(self, i):\n"
        "        return self.x[i], int(self.x[i, 0] > 0)\n"
        "def points():\n"
        "    return Points(96), Points(50)\n"
        "def model():\n"
        "    return torch.nn.Linear(2, 2)\n"
    )
    args = [
        "--model",
        "own.py:model",
        "--data",
        "own.py:points",
        "--batch-size",
        "8",
        "--lr",
        "0.5",
        "--epochs",
        "3",
    ]
    done = cli("train", *args, "--workers", "2", "--loader-processes", "1", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["test"]["count"] == 50
    assert summary["test"]["accuracy"] > 0.9
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if summary["folder"].encode() in command], "a loader lives on"


def test_a_finished_run_is_repeated_from_its_config_and_flags_win(cli, tmp_path: Path):
    first = json.loads(cli("train", *SMALL, "--lr", "0.02", "--steps", "4", "--json").stdout)
    config = f"{first['folder']}/config.json"
    again = json.loads(cli("train", "--config", config, "--json").stdout)
    assert again["ranks"][0]["parameters_sha256"] == first["ranks"][0]["parameters_sha256"]
    longer = json.loads(cli("train", "--config", config, "--epochs", "1", "--json").stdout)
    assert longer["steps"] == 5


@pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1), of util-linux, to make a terminal")
def test_a_terminal_gets_a_bar(cli, tmp_path: Path):
    import subprocess
    import sys

    command = f"{sys.executable} -m gradsync.cli train {' '.join(SMALL)} --epochs 3"
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0
    assert "15/15" in done.stdout
    assert "samples/s" in done.stdout
    assert "\x1b[" in done.stdout


def test_data_list_and_verify_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("GRADSYNC_DATA", str(tmp_path / "no-data"))

    def data(*words: str) -> tuple[int, str, str]:
        """Within this process: importing torch takes longer than all of these."""
        with pytest.raises(SystemExit) as end:
            main(["data", *words])
        return end.value.code, *capsys.readouterr()

    code, listed, _ = data("list", "--json")
    assert code == 0
    assert [(row["name"], row["found"]) for row in json.loads(listed)] == [("cifar10", False), ("mnist", False)]
    assert "gradsync data fetch cifar10 mnist" in data("list")[1]
    assert data("verify")[0] == 1
    assert data("verify", "imagenet")[0] == 2
    code, _, errors = data("fetch", "mnist", "--mirror", "http://127.0.0.1:1")
    assert code == 2
    assert "could not download train-images-idx3-ubyte.gz" in errors
