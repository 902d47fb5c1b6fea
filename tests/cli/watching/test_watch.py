"""What gradsync watch is given that it cannot use: a sentence each, and no folder is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no command to watch: gradsync watch -- torchrun --nproc-per-node 2 train.py"),
        (["--name", "mine", "--"], "no command to watch"),
        (["--", "nosuchcommand", "x.py"], "cannot run nosuchcommand: No such file or directory. HINT: the command"),
        (["--join", "a", "--name", "b", "--", "true"], "you set both --join and --name: --join names the folder"),
        (["--log-to", "tensorbord", "--", "true"], "tensorbord"),
    ],
)
def test_it_is_refused_before_anything_starts(cli, tmp_path: Path, words: list[str], sentence: str):
    done = cli("watch", *words)
    assert done.returncode == 2
    assert sentence in done.stderr and "Traceback" not in done.stderr
    left = [path for path in tmp_path.rglob("*") if path != tmp_path / "runs"]
    assert left == [] and done.stdout == ""
