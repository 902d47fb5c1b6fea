"""What every strategy must do, with real processes. A new strategy is in here by being in the dict.

N workers that share a global batch compute the same model as one worker with the whole batch, and every rank ends
with the same bits. In float64, so that a difference is a mistake and not rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gradsync import launch, models
from gradsync.config import RunConfig
from gradsync.record import Run
from gradsync.strategies import STRATEGIES

SYNCHRONOUS = [name for name in STRATEGIES if name not in ("local", "none")]
STEPS, BATCH, TOLERANCE = 20, 12, 1e-9
FEW_STEPS = 6  # of vgg11: 74 MB of gradients a step take their time on two cores
SETTINGS = {
    # 53 samples: the last batch of each epoch has 5, which no number of workers here splits evenly
    "logistic": {"model": "logistic", "train_samples": 53, "lr": 0.05},
    "vgg11": {"model": "vgg11", "norm": "none", "train_samples": 60, "lr": 0.05},
}

Parameters = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    out = tmp_path_factory.mktemp("runs")

    known: dict[str, Run] = {}

    def run(case: str, strategy: str, workers: int, alone: bool = False, **more: object) -> Run:
        """All strategies on so many workers run in turn in the same processes, when the first one is asked for."""
        settings = {
            "steps": STEPS,
            "batch_size": BATCH,
            "precision": "fp64",
            "weight_decay": 1e-3,
            "eval": False,
        }
        settings |= {"save_model": True, "threads": 1, "out": str(out), **SETTINGS[case], **more}
        key = f"{case} {workers} {sorted(more.items())}"
        if f"{key} {strategy}" not in known:
            names = SYNCHRONOUS if strategy in SYNCHRONOUS and not alone else [strategy]
            configs = [RunConfig(strategy=name, workers=workers, **settings) for name in names]
            known.update((f"{key} {run.config['strategy']}", run) for run in launch.run_in_turn(configs))
        done = known[f"{key} {strategy}"]
        assert done.status == "completed", done.summary["error"]
        assert done.summary["steps"] == settings["steps"]
        return done

    return run


def saved(folder: Path) -> Parameters:
    return torch.load(folder / "model.pt", weights_only=True)


@pytest.fixture(scope="module")
def one_process(run: Callable[..., Run]) -> Callable[..., Parameters]:
    known: dict[str, Parameters] = {}

    def one(case: str, **more: object) -> Parameters:
        key = f"{case} {more}"
        if key not in known:
            known[key] = saved(run(case, "local", 1, **more).folder)
        return known[key]

    return one


def distance(one: Parameters, other: Parameters) -> float:
    """The largest difference in any tensor, relative to the largest number in it."""
    assert one.keys() == other.keys()
    pairs = [(one[name].double(), other[name].double()) for name in one]
    return max(((a - b).abs().max() / b.abs().max().clamp_min(1e-300)).item() for a, b in pairs)


def initial(case: str) -> Parameters:
    torch.manual_seed(0)
    name = SETTINGS[case]["model"]
    shape, classes = models.native_data(name)
    return models.build(name, shape=shape, classes=classes, norm=SETTINGS[case].get("norm", "batch")).state_dict()


@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("strategy", SYNCHRONOUS)
@pytest.mark.parametrize("case", SETTINGS)
def test_n_workers_compute_what_one_computes(run, one_process, case: str, strategy: str, workers: int):
    fewer = {"steps": FEW_STEPS} if case == "vgg11" else {}
    done = run(case, strategy, workers, **fewer)
    oracle = one_process(case, **fewer)
    assert distance(oracle, initial(case)) > 1e-3, "nothing was learnt, so nothing was tested"
    assert distance(saved(done.folder), oracle) < TOLERANCE
    assert len({rank["parameters_sha256"] for rank in done.summary["ranks"]}) == 1


@pytest.mark.parametrize("strategy", SYNCHRONOUS)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(run, strategy: str):
    one, same, other = (
        run("logistic", strategy, 2, seed=seed, log_every=every).summary["ranks"][0]["parameters_sha256"]
        for seed, every in ((1, 20), (1, 21), (2, 20))  # another log_every is another run
    )
    assert one == same
    assert one != other


@pytest.mark.parametrize("strategy", SYNCHRONOUS)
def test_one_worker_is_bit_for_bit_the_local_run(run, one_process, strategy: str):
    done = run("logistic", strategy, 1)
    oracle = one_process("logistic")
    assert all(torch.equal(tensor, oracle[name]) for name, tensor in saved(done.folder).items())


WITH_NORM = {"norm": "batch", "steps": 4, "lr": 0.01}


@pytest.mark.parametrize(
    ("strategy", "buffers", "same"),
    [
        ("gather-scatter", None, False),
        ("all-reduce", None, False),
        ("ddp", None, True),
        ("bucketed", None, True),
        ("ddp", "local", False),
        ("all-reduce", "broadcast", True),
        ("gather-scatter", "average", True),
    ],
)
def test_batchnorm_statistics_are_kept_apart_or_agreed_on_as_asked(
    run, strategy: str, buffers: str | None, same: bool
):
    done = run("vgg11", strategy, 2, alone=True, buffers=buffers, eval=True, test_samples=40, **WITH_NORM)
    ranks = done.summary["ranks"]
    assert len({rank["parameters_sha256"] for rank in ranks}) == 1
    assert (len({rank["buffers_sha256"] for rank in ranks}) == 1) is same
    # Different models are each tested on everything; equal ones share the test set.
    assert [rank["test"] is None for rank in ranks] == [same, same]
    assert done.summary["test"]["count"] == 40


@pytest.mark.parametrize("strategy", SYNCHRONOUS)
def test_synchronized_batchnorm_makes_n_workers_equal_to_one(run, one_process, strategy: str):
    """Parameters and running statistics: without --sync-bn they differ in the first digits."""
    oracle = one_process("vgg11", **WITH_NORM)
    done = run("vgg11", strategy, 3, sync_bn=True, **WITH_NORM)
    assert distance(saved(done.folder), oracle) < TOLERANCE
    assert len({rank["buffers_sha256"] for rank in done.summary["ranks"]}) == 1
    if strategy == "all-reduce":
        apart = run("vgg11", strategy, 3, alone=True, **WITH_NORM)
        assert distance(saved(apart.folder), oracle) > 1e-3
