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
from gradsync.config import ONE_PROCESS, WITH_SERVERS, RunConfig
from gradsync.record import Run
from gradsync.strategies import STRATEGIES

COLLECTIVE = [name for name in STRATEGIES if name not in ("local", "none", *WITH_SERVERS, *ONE_PROCESS)]
OVER_MPI = [f"{name} over mpi" for name in COLLECTIVE if name != "ddp"]
SERVED = ["ps-sync", "ps-sync with 2 servers", "ps-sync with 2 servers shared", "ps-sync over mpi"]
SYNCHRONOUS = [*COLLECTIVE, "data-parallel", *SERVED, *OVER_MPI]
STEPS, BATCH, TOLERANCE = 20, 12, 1e-9
FEW_STEPS = 3  # of vgg11: 74 MB of gradients a step take their time on two cores
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

    def run(case: str, way: str, workers: int, among: list[str] | None = None, **more: object) -> Run:
        """All ways of ``among`` on so many workers run in turn, when the first one is asked for."""
        settings = {
            "steps": STEPS,
            "batch_size": BATCH,
            "precision": "fp64",
            "weight_decay": 1e-3,
            "eval": False,
            "measure": False,  # that measuring changes no bit is tested in tests/meter
        }
        settings |= {"save_model": True, "threads": 1, "out": str(out), **SETTINGS[case], **more}
        key = f"{case} {workers} {sorted(more.items())}"
        if f"{key} {way}" not in known:
            ways = among or [way]
            configs = [RunConfig(**of_way(name), workers=workers, **settings) for name in ways]
            runs = launch.run_in_turn(configs)
            known.update((f"{key} {name}", run) for name, run in zip(ways, runs, strict=True))
        done = known[f"{key} {way}"]
        assert done.status == "completed", done.summary["error"]
        assert done.summary["steps"] == settings["steps"]
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


# Starting processes takes most of the time, and every way over every transport wants its own: some of them are enough
# for vgg11, and for four workers. `gradsync verify --transport gloo,mpi --servers 1,2` runs them all.
SOME = ["ps-sync with 2 servers", "bucketed over mpi"]
CASES = [("logistic", way, 2) for way in SYNCHRONOUS]
CASES += [("logistic", way, 3) for way in (*COLLECTIVE, "ps-sync")]
CASES += [("logistic", way, 4) for way in (*COLLECTIVE, "ps-sync with 2 servers")]
CASES += [("vgg11", way, workers) for workers in (2, 4) for way in ("all-reduce", "ring", "ddp")]
CASES += [("vgg11", way, 3) for way in (*COLLECTIVE, *SOME)]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("case", "way", "workers"), CASES)
def test_n_workers_compute_what_one_computes(run, one_process, case: str, way: str, workers: int):
    fewer = {"steps": FEW_STEPS} if case == "vgg11" else {}
    among = [name for other, name, count in CASES if (other, count) == (case, workers)]
    done = run(case, way, workers, among, **fewer)
    oracle = one_process(case, **fewer)
    assert distance(oracle, initial(case)) > 1e-3, "nothing was learnt, so nothing was tested"
    assert distance(saved(done.folder), oracle) < TOLERANCE
    assert len({rank["parameters_sha256"] for rank in done.summary["ranks"]}) == 1


REPEATED = [*COLLECTIVE, "ps-sync"]


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Run]]:
    """Every way three times: twice with one seed, once with another."""
    out = str(tmp_path_factory.mktemp("repeated"))
    base = {**SETTINGS["logistic"], "workers": 2, "batch_size": BATCH, "steps": STEPS, "precision": "fp64"}
    base |= {"eval": False, "measure": False}
    cases = [(way, seed) for way in REPEATED for seed in (1, 1, 2)]
    runs = launch.run_in_turn(
        [RunConfig(**of_way(way), **base, seed=seed, threads=1, out=out) for way, seed in cases]
    )
    return {way: [run for (name, _), run in zip(cases, runs, strict=True) if name == way] for way in REPEATED}


@pytest.mark.parametrize("way", REPEATED)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(repeated: dict[str, list[Run]], way: str):
    one, same, other = (run.summary["ranks"][0]["parameters_sha256"] for run in repeated[way])
    assert one == same
    assert one != other


ALONE = [*COLLECTIVE, "data-parallel", "ps-sync", "ps-async"]


@pytest.mark.parametrize("way", ALONE)
def test_one_worker_is_bit_for_bit_the_local_run(run, one_process, way: str):
    """Asynchronous too: with nobody else there, no gradient is stale."""
    done = run("logistic", way, 1, ALONE)
    oracle = one_process("logistic")
    assert all(torch.equal(tensor, oracle[name]) for name, tensor in saved(done.folder).items())


WITH_NORM = {"norm": "batch", "steps": 3, "lr": 0.01}


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


@pytest.fixture(scope="module")
def with_norm(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    base = {**SETTINGS["vgg11"], **WITH_NORM, "workers": 2, "batch_size": BATCH, "test_samples": 40, "threads": 1}
    base |= {"precision": "fp64", "measure": False, "out": str(tmp_path_factory.mktemp("norm"))}
    return launch.run_in_turn([RunConfig(**base, strategy=name, buffers=buffers) for name, buffers, _ in STATISTICS])


@pytest.mark.parametrize("case", range(len(STATISTICS)))
def test_batchnorm_statistics_are_kept_apart_or_agreed_on_as_asked(with_norm: list[Run], case: int):
    summary, same = with_norm[case].summary, STATISTICS[case][2]
    ranks = summary["ranks"]
    assert len({rank["parameters_sha256"] for rank in ranks}) == 1
    assert (len({rank["buffers_sha256"] for rank in ranks}) == 1) is same
    # Different models are each tested on everything; equal ones share the test set.
    assert [rank["test"] is None for rank in ranks] == [same, same]
    assert summary["test"]["count"] == 40


@pytest.mark.parametrize("strategy", ["all-reduce", "bucketed", "ddp"])
def test_synchronized_batchnorm_makes_n_workers_equal_to_one(run, one_process, strategy: str):
    """Parameters and running statistics: without --sync-bn they differ in the first digits."""
    oracle = one_process("vgg11", **WITH_NORM)
    done = run("vgg11", strategy, 3, ["all-reduce", "bucketed", "ddp"], sync_bn=True, **WITH_NORM)
    assert distance(saved(done.folder), oracle) < TOLERANCE
    assert len({rank["buffers_sha256"] for rank in done.summary["ranks"]}) == 1
    if strategy == "all-reduce":
        apart = run("vgg11", strategy, 3, **WITH_NORM)
        assert distance(saved(apart.folder), oracle) > 1e-3


def test_a_batch_in_pieces_is_the_same_batch(run, one_process):
    """--accumulate: forward and backward in pieces, agreed on once."""
    ways = [*COLLECTIVE, "ps-sync"]
    oracle = one_process("logistic")
    for way in ways:
        done = run("logistic", way, 2, ways, accumulate=3)
        assert distance(saved(done.folder), oracle) < TOLERANCE, way
        assert len({rank["parameters_sha256"] for rank in done.summary["ranks"]}) == 1, way


def test_workers_that_start_with_their_own_parameters_stay_different(run):
    done = run("logistic", "all-reduce", 2, start="own")
    assert len({rank["parameters_sha256"] for rank in done.summary["ranks"]}) == 2


def test_summed_gradients_are_a_larger_step(run, one_process):
    """Of N workers the sum is N times the mean: without momentum and decay, the step of an N-fold learning rate."""
    plain = {"momentum": 0.0, "weight_decay": 0.0}
    summed = run("logistic", "ps-sync", 2, options={"combine": "sum"}, **plain)
    doubled = one_process("logistic", **plain, lr=2 * SETTINGS["logistic"]["lr"])
    assert distance(saved(summed.folder), doubled) < TOLERANCE


def test_backup_workers_with_two_servers_end_together(run):
    """Each server picks the first two of three gradients for itself, so that the two drift apart."""
    done = run("logistic", "ps-sync with 2 servers", 3, options={"aggregate": 2})
    summary = done.summary
    assert summary["updates"] == STEPS
    assert sum(summary["staleness"]["histogram"].values()) == 2 * STEPS
    assert summary["server_count"] == 2
    assert (done.folder / "model.pt").exists()
    assert not list(done.folder.glob("model-*.pt"))
