"""What the user brings is looked at before a process starts: one sample, and the model's output for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradsync.config import RunConfig
from gradsync.data import synthetic
from gradsync.errors import InputError
from gradsync.library.runs.check import build, check, inform, resolved, suit
from gradsync.study.verify import VerifyStudy

OWN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

IMAGES = torch.rand(16, 1, 28, 28)
def both(labels): return TensorDataset(IMAGES, labels), TensorDataset(IMAGES, labels)
def classes(): return both(torch.arange(16) % 10)
def small_integers(): return both((torch.arange(16) % 10).to(torch.int16))
def floats(): return both(torch.rand(16, 1))
def tokens(): return both(torch.zeros(16, 7, dtype=torch.long))
def outside(): return both(torch.full((16,), 10))
def left_out(): return both(torch.full((16,), -100))
def words(): return [(image, "cat") for image in IMAGES], [(image, "cat") for image in IMAGES]
def triples(): return [(image, 1, 2) for image in IMAGES], [(image, 1, 2) for image in IMAGES]
def net(outputs=10): return nn.Sequential(nn.Flatten(), nn.Linear(784, outputs))
def two(): return net(2)
def one(): return net(1)
class Sequence(nn.Module):
    def forward(self, images): return images.flatten(2).expand(-1, 9, -1)
class Pair(nn.Module):
    def forward(self, images): return images, images
class Gpu(nn.Module):
    def forward(self, images): raise RuntimeError("expected a GPU")
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)


@pytest.mark.parametrize(
    ("model", "data", "sentence"),
    [
        ("logistic", "floats", "labels are of type float32"),
        ("logistic", "tokens", "a label has the shape 7"),
        ("logistic", "outside", "a label is 10, but the model has 10 outputs: labels must be from 0 to 9"),
        ("logistic", "left_out", "a label is -100"),
        ("logistic", "words", "has labels of type str: each must be a class"),
        ("logistic", "triples", r"of \(tensor, label\) pairs"),
        ("own.py:net", "floats", "labels are of type float32"),
        ("own.py:two", None, "a label is 9, but the model has 2 outputs"),
        ("own.py:one", "classes", "outputs have the shape 1×1 for 1 samples"),
        ("own.py:Sequence", "classes", "outputs have the shape 1×9×784 for 1 samples"),
        ("own.py:Pair", "classes", "the model returns a tuple"),
    ],
)
def test_what_the_loss_does_not_fit_is_refused(model: str, data: str | None, sentence: str):
    chosen = {"data": f"own.py:{data}"} if data else {}
    if model == "own.py:two":
        Path("own.py").write_text(OWN.replace("784, outputs", "3 * 32 * 32, outputs"))  # as synthetic data is for it
    with pytest.raises(InputError, match=sentence):
        check([RunConfig(model=model, **chosen)])


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("logistic", "classes"),
        ("own.py:net", "classes"),
        ("logistic", "small_integers"),
        ("own.py:Gpu", "classes"),  # what cannot be tried here, the ranks will tell
    ],
)
def test_what_fits_is_taken(model: str, data: str):
    asked = RunConfig(model=model, data=f"own.py:{data}")
    found = check([asked])
    assert [config.asked for config in found] == [asked]
    assert build(found).training


def test_a_check_makes_no_synthetic_data(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(synthetic.torch, "randint", lambda *_, **__: pytest.fail("a sample was made"))
    assert check([RunConfig(train_samples=10_000, test_samples=100)])


def test_more_synthetic_data_than_memory_is_refused_before_it_is_made():
    with pytest.raises(InputError, match=r"--train-samples is 100,000,000: synthetic .* may have 5,592,405"):
        check([RunConfig(train_samples=100_000_000)])
    with pytest.raises(InputError, match="--test-samples is 6,000,000"):
        check([RunConfig(test_samples=6_000_000)])


def test_a_worker_beyond_the_samples_is_still_refused():
    with pytest.raises(InputError, match="8 workers cannot share 5 training samples"):
        check([RunConfig(model="logistic", workers=8, train_samples=5)])


SERVED = {"model": "logistic", "strategy": "ps-sync", "workers": 3, "batch_size": 6}


def test_runs_are_resolved_in_the_order_in_which_they_are_asked_for():
    asked = [RunConfig(model=model, workers=2) for model in ("mnist-cnn", "logistic", "mnist-cnn")]
    found = check(asked)
    assert [config.asked for config in found] == asked
    assert [(config.model, config.strategy) for config in found] == [
        ("mnist-cnn", "ddp"),
        ("logistic", "ddp"),
        ("mnist-cnn", "ddp"),
    ]


def test_what_a_strategy_says_of_itself_is_in_the_settings():
    assert resolved(RunConfig(**SERVED)).spare_workers == 0
    assert resolved(RunConfig(**SERVED, options={"aggregate": "2"})).spare_workers == 1
    asynchronous = resolved(RunConfig(**SERVED | {"strategy": "ps-async"}))
    assert (asynchronous.asynchronous, asynchronous.spare_workers, asynchronous.servers) == (True, 2, 1)
    assert resolved(RunConfig(strategy="data-parallel", workers=4)).processes == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"strategy": "al-reduce"}, "al-reduce"),
        ({**SERVED, "options": {"aggregate": "two"}}, "--options.aggregate is two"),
        ({**SERVED, "options": {"bucket-mb": "2"}}, "bucket-mb"),
        ({"model": "logistic", "loader_processes": 2}, "--loader-processes is for your own Datasets"),
    ],
)
def test_what_the_strategy_or_the_data_do_not_take_is_refused(settings: dict, sentence: str):
    good = RunConfig(model="logistic")
    with pytest.raises(InputError, match=sentence):
        check([good, RunConfig(**settings)])


def test_the_runs_of_a_study_get_the_settings_their_strategies_know():
    options = {"bucket-mb": "2", "aggregate": "1"}
    shared = {"model": "logistic", "workers": 2, "servers": 2, "options": options, "transport": "gloo"}
    plan = [RunConfig(**shared, strategy=name) for name in ("ddp", "ps-sync", "data-parallel")]
    ddp, served, alone = suit(plan)
    assert (ddp.options, ddp.servers, ddp.transport) == ({"bucket-mb": "2"}, None, "gloo")
    assert (served.options, served.servers, served.transport) == ({"aggregate": "1"}, 2, "gloo")
    assert (alone.options, alone.servers, alone.transport) == ({}, None, "auto")
    assert [config.strategy for config in check(suit(plan))] == ["ddp", "ps-sync", "data-parallel"]


def test_an_option_that_no_strategy_of_a_study_has_is_refused():
    plan = [RunConfig(strategy=name, workers=2, options={"bucket-mbs": "2"}) for name in ("ddp", "ring")]
    with pytest.raises(InputError, match=r"none of ddp, ring has an option bucket-mbs\. Their options: bucket-mb"):
        suit(plan)


def test_the_certificate_learns_which_strategies_there_are_and_what_the_model_has():
    study = VerifyStudy()
    inform(study)
    assert {"ddp", "ps-async", "data-parallel"} <= set(study.strategies)
    assert not {"local", "none"} & set(study.strategies)
    assert study.facts["ps-async"].asynchronous
    assert study.model_facts.parameters
    with_peers = VerifyStudy(start="own")
    inform(with_peers)
    assert "ddp" in with_peers.strategies
    assert not {"ps-sync", "ps-async", "data-parallel"} & set(with_peers.strategies)


def test_a_certificate_of_nothing_is_refused():
    with pytest.raises(InputError, match="nothing to verify: ddp does not run over MPI"):
        inform(VerifyStudy(strategies=("ddp",), transport=("mpi",)))
