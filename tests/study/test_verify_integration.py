"""The certificate on real runs: of strategies that are right, and of strategies broken on purpose."""

from __future__ import annotations

import json
from pathlib import Path

from gradsync.record.certificate import read_certificate

BROKEN = """
import torch
from gradsync.strategies.all_reduce import AllReduce


class ForgetsToDivide(AllReduce):
    def agree(self):
        for gradient in self.gradients():
            self.comm.all_reduce(gradient)


class SkipsAParameter(AllReduce):
    def agree(self):
        for gradient in self.gradients()[1:]:
            self.comm.all_reduce(gradient)
            gradient.div_(self.comm.size)


class StartsElsewhere(AllReduce):
    def attach(self, model, optimizer):
        forward = super().attach(model, optimizer)
        if self.comm.rank == 1:
            with torch.no_grad():
                next(model.parameters()).add_(0.01)
        return forward


class Raises(AllReduce):
    def agree(self):
        raise RuntimeError("no agreement today")


class Rounds(AllReduce):
    exact = False

    def agree(self):
        for gradient in self.gradients():
            gradient.copy_(gradient.bfloat16())
        super().agree()
"""

NORM = """
from torch import nn

def normed():
    return nn.Sequential(nn.Flatten(), nn.Linear(3072, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 10))
"""


def verify(cli, *args: str) -> tuple[int, dict[str, dict]]:
    done = cli("verify", "--workers", "2", "--steps", "6", "--json", *args)
    assert done.returncode in (0, 1), done.stderr
    runs = json.loads(done.stdout)["runs"]
    return done.returncode, {
        run["strategy"].split(":")[-1]: run["certificate"] for run in runs if "certificate" in run
    }


def test_a_decoder_is_the_same_with_every_way_of_clipping_the_mean(cli):
    """Before the update, wherever that is made: by the workers, by a server, by one process for all replicas."""
    small = [f"--model-options.{name}" for name in ("width=16", "depth=1", "heads=2", "context=8")]
    clipped = ["--optimizer", "sgd", "--lr", "0.5", "--clip-norm", "0.05"]
    code, found = verify(
        cli, "--model", "gpt", *small, *clipped, "--strategies", "bucketed,ddp,ps-sync,data-parallel"
    )
    assert code == 0
    assert {item["verdict"] for item in found.values()} == {"equal to rounding"}
    assert len(found) == 4


def test_broken_strategies_are_called_wrong_each_time_and_right_ones_are_not(cli, tmp_path: Path):
    (tmp_path / "broken.py").write_text(BROKEN)
    names = ["ForgetsToDivide", "SkipsAParameter", "Raises", "StartsElsewhere", "Rounds"]
    code, found = verify(cli, "--strategies", "all-reduce", *(f"broken.py:{name}" for name in names))
    assert code == 1
    assert {name: item["verdict"] for name, item in found.items()} == {
        "all-reduce": "equal to rounding",
        "ForgetsToDivide": "wrong",
        "SkipsAParameter": "wrong",
        "Raises": "failed",
        "StartsElsewhere": "wrong",
        "Rounds": "approximate by design",
    }
    broken = {
        name: [check["name"] for check in item["checks"] if check["holds"] is False] for name, item in found.items()
    }
    start, bits, distance = "same start", "same bits on all ranks", "distance from one process"
    assert broken == {
        "all-reduce": [],
        "ForgetsToDivide": [distance],
        "SkipsAParameter": [bits, distance, "bytes against its closed form"],
        "Raises": ["runs to its end"],
        "StartsElsewhere": [start, bits],  # by a shift that softmax does not see
        "Rounds": [],
    }
    assert [found[name]["same_bits"] for name in ("ForgetsToDivide", "SkipsAParameter", "StartsElsewhere")] == [
        True,
        False,
        False,
    ]
    assert "no agreement today" in found["Raises"]["differs"]
    assert 1e-6 < found["Rounds"]["distance"] < 0.1


def test_batchnorm_is_approximate_by_design_and_synchronized_it_is_equal(cli, tmp_path: Path):
    (tmp_path / "model.py").write_text(NORM)
    code, found = verify(cli, "--model", "model.py:normed", "--strategies", "all-reduce,ddp")
    assert code == 0
    assert {item["verdict"] for item in found.values()} == {"approximate by design"}
    assert "BatchNorm normalizes each worker's share" in found["ddp"]["differs"]
    assert "statistics of its own" in found["all-reduce"]["differs"], "all-reduce leaves them local, ddp does not"
    assert "statistics of its own" not in found["ddp"]["differs"]
    assert found["ddp"]["distance"] > 1e-4

    code, found = verify(cli, "--model", "model.py:normed", "--strategies=all-reduce,ddp", "--sync-bn")
    assert code == 0
    assert {item["verdict"] for item in found.values()} == {"equal to rounding"}


def test_the_table_ends_in_a_sentence_and_the_evidence_is_kept(cli, tmp_path: Path):
    done = cli("verify", "--workers", "1,2", "--strategies", "all-reduce", "--steps", "3")
    assert done.returncode == 0, done.stderr
    assert "run 1 of 3: local, 1 worker" in done.stdout
    assert "exact" in done.stdout
    assert "2 of 2 produce the same model as one process." in done.stdout
    *_, folder, page = done.stdout.strip().splitlines()
    assert (folder, page) == ("studies/verify", "studies/verify/report.html")
    runs = (tmp_path / folder / "runs").iterdir()
    kept = {path.name.partition("logistic-")[2]: read_certificate(path) for path in runs}
    assert {name: item and item.verdict for name, item in kept.items()} == {
        "local-1w": None,
        "all-reduce-1w": "exact",
        "all-reduce-2w": "equal to rounding",
    }
    again = cli("verify", "--workers", "1,2", "--strategies", "all-reduce", "--steps", "3", "--json")
    assert "3 of 3 runs are finished already" in again.stderr
    shown = json.loads(again.stdout)
    assert shown["study"] == "verify" and len(shown["runs"]) == 3
    assert (tmp_path / folder / "tables").is_dir()


def test_bad_input_is_a_sentence(cli, tmp_path: Path):
    (tmp_path / "odd.py").write_text(
        "import gradsync\nclass Odd(gradsync.Strategy):\n    def __init__(self, comm): pass\n"
        "class Odder(gradsync.Strategy):\n    def __init__(self, comm, *, buffers=None): 1 / 0\n"
    )
    for args, sentence in [
        (("--strategies", "odd.py:Odd"), "Its constructor must take (comm, *, buffers=None)"),
        (("--strategies", "odd.py:Odder"), "1 / 0"),
        (("--strategies", "odd.py:gradsync"), "unknown function"),
        (("--workers", "2,3", "--batch-size", "8"), "does not split evenly over 3 workers"),
        (("--strategies", "al-reduce"), "Did you mean all-reduce?"),
        (("--strategies", "missing.py:Mine"), "there is no such file"),
    ]:
        done = cli("verify", *args)
        assert done.returncode == 2
        assert sentence in done.stderr
        assert "gradsync/strategies" not in done.stderr
