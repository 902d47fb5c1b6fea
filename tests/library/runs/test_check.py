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
def yes_or_no(): return both((torch.rand(16) > 0.5).float())
def outside(): return both(torch.full((16,), 10))
def left_out(): return both(torch.full((16,), -100))
def words(): return [(image, "cat") for image in IMAGES], [(image, "cat") for image in IMAGES]
def triples(): return [(image, 1, 2) for image in IMAGES], [(image, 1, 2) for image in IMAGES]
def named(): return [{"images": image, "labels": 1} for image in IMAGES], [{"images": IMAGES[0], "labels": 1}]
def text(): return [("words", 1)] * 16, [("words", 1)] * 16
def bare(): return list(IMAGES), list(IMAGES)
def ragged(): return ([(torch.zeros(n + 1), 1) for n in range(16)],) * 2
def total(outputs, target): return (outputs.squeeze(1) - target).square().mean()
def per_sample(outputs, target): return (outputs.squeeze(1) - target).square()
def metric(outputs, target): return outputs.shape[1]
def broken(outputs, target): return metric(outputs, target) / 0
def step(outputs, target): return 1
class Words(nn.Module):
    def __init__(self): super().__init__(); self.layer = nn.Linear(1, 10)
    def forward(self, words): return self.layer(torch.tensor([[float(len(word))] for word in words]))
class Images(nn.Module):
    def __init__(self, width: int = 4):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.Linear(width, 10))
    def forward(self, images): return {"logits": self.layers(images)}
class Two(nn.Module):
    def __init__(self): super().__init__(); self.layer = nn.Linear(1, 3)
    def forward(self, images, number): return self.layer(number[:, None].float())
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
        ("logistic", "tokens", "outputs have the shape 2×10, and the labels 2×7: for cross-entropy"),
        ("logistic", "outside", "a label is 10, but the model has 10 outputs: labels must be from 0 to 9"),
        ("logistic", "left_out", "a label is -100"),
        ("logistic", "words", "labels are of type str: for cross-entropy each must be a class"),
        ("logistic", "bare", r"a sample of the data is .*: it must be \(input, target\), \(input, ..., target\), or"),
        ("logistic", "text", "logistic takes images, the data has other inputs"),
        ("own.py:net", "ragged", r"equal sizes: \(1, int\) and \(2, int\)"),
        ("own.py:net", "floats", "labels are of type float32"),
        ("own.py:two", None, "a label is 9, but the model has 2 outputs"),
        ("own.py:one", "classes", "outputs have the shape 2×1, and the labels 2:"),
        ("own.py:Sequence", "classes", "outputs have the shape 2×9×784, and the labels 2:"),
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
        ("own.py:Images", "named"),
        ("own.py:Two", "triples"),
        ("own.py:Words", "text"),
        ("own.py:Gpu", "classes"),  # what cannot be tried here, the ranks will tell
    ],
)
def test_what_fits_is_taken(model: str, data: str):
    asked = RunConfig(model=model, data=f"own.py:{data}")
    found = check([asked])
    assert [config.asked for config in found] == [asked]
    assert build(found).training


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss": "mse"}, "outputs have the shape 2×2, and the targets 2: mse needs a target for every output"),
        ({"loss": "bce", "data": "own.py:outside"}, "needs targets from 0 to 1"),
        ({"loss": "own.py:per_sample"}, "it returned one of shape 2, of type float32"),
        ({"metric": ("own.py:broken",)}, "broken(.|\n)*ZeroDivisionError"),
        ({"metric": ("own.py:step",)}, "there is a figure of this name already"),
        ({"metric": ("own.py:metrics",)}, "unknown function in own.py: 'metrics'. Did you mean metric"),
        ({"optimizer": "own.py:small_integers"}, "raised an error"),
        ({"optimizer": "own.py:step"}, "returned int: it must return an Optimizer"),
        ({"optimizer": "sdg"}, "unknown optimizer 'sdg'. Did you mean sgd"),
        ({"model_options": {"outpts": "3"}}, "unknown option of own.py:net 'outpts'. Did you mean outputs"),
        ({"model_options": {"outputs": "three"}}, "--model-options.outputs is three: it must be a whole number"),
    ],
)
def test_a_task_that_does_not_fit_is_refused(settings: dict, sentence: str):
    outputs = {"outputs": "2" if settings == {"loss": "mse"} else "1"}
    shared = {"model": "own.py:net", "model_options": outputs, "data": "own.py:yes_or_no", "loss": "own.py:total"}
    with pytest.raises(InputError, match=sentence):
        check([RunConfig(**shared | settings)])


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "mse", "metric": ("rmse", "own.py:metric")},
        {"loss": "bce"},
        {"loss": "own.py:total", "metric": ("accuracy",)},
        {"loss": "torch.nn.functional:binary_cross_entropy_with_logits", "model": "own.py:Squeezed"},
    ],
)
def test_a_task_that_fits_is_taken(settings: dict):
    squeezed = "class Squeezed(nn.Sequential):\n    def __init__(self): super().__init__(net(1), nn.Flatten(0))\n"
    Path("own.py").write_text(OWN + squeezed)
    assert check([RunConfig(**{"model": "own.py:one", "data": "own.py:yes_or_no"} | settings)])


def test_options_are_the_arguments_of_ones_own_function():
    (config,) = check([RunConfig(model="own.py:Images", data="own.py:named", model_options={"width": "7"})])
    assert build([config]).layers[1].out_features == 7  # type: ignore[union-attr, index]


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
