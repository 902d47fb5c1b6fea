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
from gradsync.config import Resolved, RunConfig
from gradsync.library.runs.check import resolved
from gradsync.record import Run
from gradsync.strategies import STRATEGIES, facts_of
from gradsync.study.verify import ModelFacts, compare
from gradsync.testing.ways import WAYS

COLLECTIVE = [
    name for name, kind in STRATEGIES.items() if name != "none" and not (kind.has_servers or kind.in_one_process)
]
OVER_MPI = [f"{name} over mpi" for name in COLLECTIVE if name != "ddp"]
SERVED = ["ps-sync", "ps-sync with 2 servers", "ps-sync with 2 servers shared", "ps-sync over mpi"]
SYNCHRONOUS = [*COLLECTIVE, "data-parallel", *SERVED, *OVER_MPI]
STEPS, BATCH, TOLERANCE = 20, 12, 1e-9
FEW_STEPS = 3  # of vgg11: 74 MB of gradients a step take their time on two cores
SMALL_NET = Path(__file__).parents[1] / "support" / "small_net.py"
SETTINGS = {
    # 53 samples: the last batch of each epoch has 5, which no number of workers here splits evenly
    "logistic": {"model": "logistic", "train_samples": 53, "lr": 0.05},
    "vgg11": {"model": "vgg11", "norm": "none", "train_samples": 60, "lr": 0.05},
    "BatchNorm": {"model": f"{SMALL_NET}:build", "train_samples": 60, "lr": 0.01},
}

Parameters = dict[str, torch.Tensor]
Wish = tuple[str, str, int, dict[str, object]]  # case, way, workers, more settings


def config_of(case: str, way: str, workers: int, more: dict[str, object], out: Path) -> Resolved:
    settings = {"steps": STEPS, "batch_size": BATCH, "precision": "fp64", "weight_decay": 1e-3, "eval": False}
    settings |= {"save_model": True, "threads": 1, "out": str(out), **SETTINGS[case], **more}
    return resolved(RunConfig(**of_way(way), workers=workers, **settings))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Starting processes takes most of the time: what can have the same ones runs in turn, when first asked for."""
    out = tmp_path_factory.mktemp("runs")
    configs = {repr(wish): config_of(*wish, out) for wish in wishes()}
    known: dict[str, Run] = {}

    def run(case: str, way: str, workers: int, **more: object) -> Run:
        key = repr((case, way, workers, more))
        if key not in known:
            start = launch.start_of(configs[key])
            together = [name for name, config in configs.items() if launch.start_of(config) == start]
            runs = launch.run_in_turn([configs[name] for name in together])
            known.update(zip(together, runs, strict=True))
        done = known[key]
        assert done.status == "completed", done.summary.error
        # With backup workers nobody need have made every step; the servers have made every update.
        assert configs[key].steps in (done.summary.steps, done.summary.updates)
        return done

    return run


def of_way(way: str) -> dict[str, object]:
    """``ps-sync with 2 servers shared``, ``ring over mpi``"""
    strategy, *rest = way.split()
    return {
        "strategy": strategy,
        "transport": "mpi" if "mpi" in rest else "auto",
        "servers": 2 if "2" in rest else None,
        "server_placement": "shared" if "shared" in rest else "own",
    }


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


# Every way over every transport wants processes of its own: some of them are enough for vgg11, and for four workers.
# `gradsync verify --transport gloo,mpi --servers 1,2` runs them all.
SOME = ["data-parallel", "ps-sync with 2 servers", "gather-scatter over mpi", "bucketed over mpi"]
CASES = [("logistic", way, workers) for workers in (2, 3) for way in SYNCHRONOUS]
CASES += [("logistic", way, 4) for way in (*COLLECTIVE, "ps-sync with 2 servers")]
CASES += [("vgg11", way, 3) for way in (*COLLECTIVE, *SOME)]
FEWER = {"logistic": {}, "vgg11": {"steps": FEW_STEPS}}
TRIED = {("logistic", way, workers) for workers in (2, 3) for way in SYNCHRONOUS if way not in SERVED}


def more_of(*case: object) -> dict[str, object]:
    return FEWER[case[0]] | ({"conformance": True} if case in TRIED else {})


REPEATED = [*COLLECTIVE, "data-parallel", "ps-sync", "bucketed over mpi"]
SEEDS = [{"seed": 1}, {"seed": 1, "log_every": 21}, {"seed": 2}]  # another log_every is another run

ALONE = [*COLLECTIVE, "data-parallel", "ps-sync", "ps-async", "ps-async with 2 servers", "ps-async over mpi"]

WITH_NORM = {"steps": 4}
TESTED = {"eval": True, "test_samples": 40}
# strategy, --buffers, whether all ranks end with the same statistics
STATISTICS = [
    ("gather-scatter", None, False),
    ("all-reduce", None, False),
    ("ddp", None, True),
    ("bucketed", None, True),
    ("ddp", "local", False),
    ("all-reduce", "broadcast", True),
    ("gather-scatter", "average", True),
]

IN_PIECES = [*COLLECTIVE, "data-parallel", "ps-sync"]
PLAIN = {"momentum": 0.0, "weight_decay": 0.0}
DOUBLED = {**PLAIN, "lr": 2 * SETTINGS["logistic"]["lr"]}
SUMMED = {"options": {"combine": "sum"}, **PLAIN}
BACKED_UP = {"options": {"aggregate": "2"}}


def wishes() -> list[Wish]:
    """Every run the tests below ask for."""
    alone = [("logistic", {}), ("vgg11", FEWER["vgg11"]), ("BatchNorm", WITH_NORM), ("logistic", DOUBLED)]
    return [
        *((case, "local", 1, more) for case, more in alone),
        *((*case, more_of(*case)) for case in CASES),
        *(("logistic", way, 2, seed) for way in REPEATED for seed in SEEDS),
        *(("logistic", way, 1, {}) for way in ALONE),
        *(("BatchNorm", name, 2, {"buffers": buffers, **TESTED, **WITH_NORM}) for name, buffers, _ in STATISTICS),
        *(("BatchNorm", name, 3, {"sync_bn": True, **WITH_NORM}) for name in COLLECTIVE),
        ("BatchNorm", "all-reduce", 3, WITH_NORM),
        *(("logistic", way, 2, {"accumulate": 3}) for way in IN_PIECES),
        ("logistic", "all-reduce", 2, {"start": "own"}),
        ("logistic", "ps-sync", 2, SUMMED),
        ("logistic", "ps-sync with 2 servers", 3, BACKED_UP),
    ]


pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(("case", "way", "workers"), CASES)
def test_n_workers_compute_what_one_computes(run, one_process, case: str, way: str, workers: int):
    done = run(case, way, workers, **more_of(case, way, workers))
    oracle = one_process(case, **FEWER[case])
    assert distance(oracle, initial(case)) > 1e-3, "nothing was learnt, so nothing was tested"
    assert distance(saved(done.folder), oracle) < TOLERANCE
    assert len({rank.parameters_sha256 for rank in done.summary.ranks}) == 1


@pytest.mark.parametrize(("case", "way", "workers"), sorted(TRIED))
def test_they_do_what_a_strategy_must_in_every_training_loop_too(run, case: str, way: str, workers: int):
    done, reference = run(case, way, workers, **more_of(case, way, workers)), run(case, "local", 1)
    facts = facts_of(done.asked.strategy)
    certificate = compare(done, reference, ModelFacts(frozenset(saved(reference.folder))), facts)
    assert [check for check in certificate.checks if check.holds is False] == []
    assert [(check.name, check.holds) for check in certificate.checks if check.in_loop] == [
        (name, True) for name in WAYS
    ]


@pytest.mark.parametrize("way", REPEATED)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(run, way: str):
    one, same, other = (run("logistic", way, 2, **seed).summary.ranks[0].parameters_sha256 for seed in SEEDS)
    assert one == same
    assert one != other


@pytest.mark.parametrize("way", ALONE)
def test_one_worker_is_bit_for_bit_the_local_run(run, one_process, way: str):
    """Asynchronous too: with nobody else there, no gradient is stale."""
    done = run("logistic", way, 1)
    oracle = one_process("logistic")
    assert all(torch.equal(tensor, oracle[name]) for name, tensor in saved(done.folder).items())


@pytest.mark.parametrize(("strategy", "buffers", "same"), STATISTICS)
def test_batchnorm_statistics_are_kept_apart_or_agreed_on_as_asked(
    run, strategy: str, buffers: str | None, same: bool
):
    summary = run("BatchNorm", strategy, 2, buffers=buffers, **TESTED, **WITH_NORM).summary
    ranks = summary.ranks
    assert len({rank.parameters_sha256 for rank in ranks}) == 1
    assert (len({rank.buffers_sha256 for rank in ranks}) == 1) is same
    # Different models are each tested on everything; equal ones share the test set.
    assert [rank.test is None for rank in ranks] == [same, same]
    assert summary.test.count == 40


@pytest.mark.parametrize("strategy", COLLECTIVE)
def test_synchronized_batchnorm_makes_n_workers_equal_to_one(run, one_process, strategy: str):
    """Parameters and running statistics: without --sync-bn they differ in the first digits."""
    oracle = one_process("BatchNorm", **WITH_NORM)
    done = run("BatchNorm", strategy, 3, sync_bn=True, **WITH_NORM)
    assert distance(saved(done.folder), oracle) < TOLERANCE
    assert len({rank.buffers_sha256 for rank in done.summary.ranks}) == 1
    if strategy == "all-reduce":
        apart = run("BatchNorm", strategy, 3, **WITH_NORM)
        assert distance(saved(apart.folder), oracle) > 1e-3


@pytest.mark.parametrize("way", IN_PIECES)
def test_a_batch_in_pieces_is_the_same_batch(run, one_process, way: str):
    """--accumulate: forward and backward in pieces, agreed on once."""
    done = run("logistic", way, 2, accumulate=3)
    assert distance(saved(done.folder), one_process("logistic")) < TOLERANCE
    assert len({rank.parameters_sha256 for rank in done.summary.ranks}) == 1


def test_workers_that_start_with_their_own_parameters_stay_different(run):
    done = run("logistic", "all-reduce", 2, start="own")
    assert len({rank.parameters_sha256 for rank in done.summary.ranks}) == 2


def test_summed_gradients_are_a_larger_step(run, one_process):
    """Of N workers the sum is N times the mean: without momentum and decay, the step of an N-fold learning rate."""
    summed = run("logistic", "ps-sync", 2, **SUMMED)
    assert distance(saved(summed.folder), one_process("logistic", **DOUBLED)) < TOLERANCE


def test_backup_workers_with_two_servers_end_together(run):
    """Each server picks the first two of three gradients for itself, so that the two drift apart."""
    done = run("logistic", "ps-sync with 2 servers", 3, **BACKED_UP)
    summary = done.summary
    assert summary.updates == STEPS
    assert sum(summary.staleness.histogram.values()) == 2 * STEPS
    assert summary.server_count == 2
    assert (done.folder / "model.pt").exists()
    assert not list(done.folder.glob("model-*.pt"))
