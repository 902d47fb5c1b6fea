"""The equivalence certificate: do N workers compute what one computes?

1. One process trains k steps on the global batches of the run.
2. Each strategy trains the same k steps on every number of workers.
3. The parameters are compared: with the one process, and between the ranks, bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from gradsync import launch
from gradsync.config import ONE_PROCESS, WITH_SERVERS, RunConfig, Settings, Transport, check_split
from gradsync.errors import InputError
from gradsync.record import Run, create_folder, write_json
from gradsync.study.compare import refuse_too_many_runs
from gradsync.values import LIMITS

Verdict = Literal["exact", "equal to rounding", "approximate by design", "wrong", "failed"]

EPSILON = {"fp64": 2.0**-52, "fp32": 2.0**-23, "bf16": 2.0**-7}
BATCH, STEPS = 24, 20
NEGLIGIBLE = 1e-6  # of the largest number in the model: a parameter that small is compared with this instead
FILE = "verify.json"
NO_DDP = ("mpi", "ddp")


@dataclass(kw_only=True)
class VerifyConfig(Settings):
    """What to train, in which ways. float64 by default, so that a difference is a mistake and not rounding."""

    model: str = "logistic"
    """A built-in model, or your own as package.module:function or file.py:function."""

    strategies: tuple[str, ...] = ()
    """Which ones; also your own as file.py:Class. Default: all that claim to agree."""

    workers: tuple[int, ...] = (2, 3, 4)
    """How many workers, for instance 2,3,4."""

    servers: tuple[int, ...] = (1,)
    """For strategies with parameter servers: how many of these, for instance 1,2."""

    transport: tuple[Transport, ...] = ("auto",)
    """What carries the messages: for instance gloo,mpi (ddp is left out over mpi)."""

    steps: int | None = None
    """Steps to train before comparing. Default: 20, unless --epochs is given."""

    precision: Literal["fp64", "fp32", "bf16"] = "fp64"
    """bf16 is autocast over float32 parameters."""

    threads: int | None = 1
    """Compute threads per worker."""

    eval: bool = False
    """Test as well."""

    measure: bool = False
    """Keep the ledger as well."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("workers", "servers", "transport"):
            if not getattr(self, name):
                raise InputError(f"--{name} is empty: name at least one.")
        if min(self.servers) < 1:
            raise InputError("--servers has 0: each must be 1 or more.")
        ways = max(len(self.strategies), len(WITH_SERVERS)) * len(self.servers)
        refuse_too_many_runs(ways * len(self.workers) * len(self.transport))
        if self.launcher:
            raise InputError("verify chooses the launcher itself: give it the --transport, for instance gloo,mpi.")
        if self.tensorboard:
            raise InputError("verify writes no event files: use --tensorboard with train or compare.")
        if self.batch_per_worker:
            raise InputError("verify compares runs with the same global batch: set --batch-size, not per worker.")
        if self.epochs is None and self.steps is None:
            self.steps = STEPS
        if self.batch_size is None:
            shared = math.lcm(*self.workers)
            if shared > LIMITS["batch_size"][1]:
                raise InputError(
                    f"no batch of up to {LIMITS['batch_size'][1]:,} samples splits evenly over all these --workers: "
                    "verify them in several commands."
                )
            self.batch_size = shared * max(1, round(BATCH / shared))
        for workers in self.workers:
            check_split(self.batch_size, workers)

    def run(
        self, strategy: str, workers: int, servers: int | None = None, transport: Transport = "auto"
    ) -> RunConfig:
        """One of the runs to compare."""
        shared: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(Settings)}
        shared |= {"save_model": True, "servers": servers, "transport": transport}
        return RunConfig(**shared, strategy=strategy, workers=workers)

    def runs(self, strategies: Iterable[str]) -> list[RunConfig]:
        """All of them, those that can have the same processes beside each other."""
        found = []
        for transport in self.transport:
            for workers in self.workers:
                plain = [name for name in strategies if name not in (*WITH_SERVERS, *ONE_PROCESS)]
                found += [self.run(name, workers, None, transport) for name in plain if (transport, name) != NO_DDP]
                for servers in self.servers:
                    served = [name for name in strategies if name in WITH_SERVERS]
                    found += [self.run(name, workers, servers, transport) for name in served]
        alone = [name for name in strategies if name in ONE_PROCESS]
        return found + [self.run(name, workers) for name in alone for workers in self.workers]


@dataclass(frozen=True)
class Finding:
    """How one strategy on one number of workers compares with one process."""

    strategy: str
    workers: int
    servers: int
    transport: str | None
    """What carried the messages; None: there were none."""

    distance: float | None
    """The largest difference in any parameter tensor, relative to the largest number in it."""

    same_bits: bool | None
    """Whether every rank holds the same parameters."""

    differs: str
    verdict: Verdict
    folder: str


@dataclass(frozen=True)
class Claim:
    """What a strategy says of itself: not meant to be equal at all, or not with several workers."""

    lossy: bool = False
    asynchronous: bool = False


@dataclass(frozen=True)
class ModelFacts:
    """What has to be known of the model to compare two of it."""

    parameters: set[str]
    by_share: list[str]
    """What it computes on each worker's share of a batch by itself, so that N workers are not one."""


def verify(
    config: VerifyConfig, strategies: dict[str, Claim], model: ModelFacts, watch: launch.Watch
) -> tuple[Path, list[Finding]]:
    """Run everything and write verify.json. ``strategies``: what each claims to be."""
    folder = create_folder(Path(config.out), "verify")
    config = replace(config, out=str(folder))
    reference = launch.run(config.run("local", 1), watch)
    stop_if_interrupted(reference)
    if reference.status != "completed":
        return folder, [failed(reference)]
    found: list[Finding] = []
    for run in launch.run_in_turn(config.runs(strategies), watch):
        stop_if_interrupted(run)
        claim = strategies[run.config["strategy"]]
        found.append(compare(run, reference, model, claim) if run.status == "completed" else failed(run))
    write_json(folder / FILE, [asdict(item) for item in found])
    return folder, found


def stop_if_interrupted(run: Run) -> None:
    if run.stopped_by:
        raise KeyboardInterrupt(run.stopped_by)


def failed(run: Run) -> Finding:
    assert run.summary
    error = run.summary["error"]
    where = f"rank {error['rank']}: " if error["rank"] is not None else ""
    differs = f"{where}{error['type']}: {error['message']}"
    return Finding(*setting(run), None, None, differs, "failed", str(run.folder))


def setting(run: Run) -> tuple[str, int, int, str | None]:
    assert run.summary
    strategy, workers, servers, transport = (
        run.summary[name] for name in ("strategy", "world_size", "server_count", "transport")
    )
    return strategy, workers, servers, transport


def compare(run: Run, reference: Run, model: ModelFacts, claim: Claim) -> Finding:
    assert run.summary
    ranks, workers = run.summary["ranks"], run.summary["world_size"]
    lossy = claim.lossy or (claim.asynchronous and workers > 1)
    distance = parameter_distance(run.folder, reference.folder, model.parameters)
    same_bits = len({rank["parameters_sha256"] for rank in ranks}) == 1
    same_statistics = len({rank["buffers_sha256"] for rank in ranks}) == 1
    by_design = ["lossy by design"] if claim.lossy else ["every gradient is an update of its own"] if lossy else []
    by_design += model.by_share if workers > 1 else []
    rounding = EPSILON[run.config["precision"]] ** 0.5  # half the digits: mistakes are far larger
    verdict = judge(distance, same_bits, rounding, lossy, by_share=bool(by_design))
    notes = by_design if verdict == "approximate by design" else []
    if not same_bits:
        notes = [*notes, "ranks hold different parameters"]
    if verdict == "wrong" and not distance <= rounding:
        notes = [*notes, "the parameters are not those of one process"]
    if not same_statistics:
        notes = [*notes, "each rank keeps BatchNorm statistics of its own (--buffers)"]
    return Finding(*setting(run), distance, same_bits, "; ".join(notes), verdict, str(run.folder))


def judge(distance: float, same_bits: bool, rounding: float, lossy: bool, by_share: bool) -> Verdict:
    """What is not meant to be equal gets a distance and never a pass. Only a lossy strategy may let ranks differ."""
    if not math.isfinite(distance) or not (same_bits or lossy):
        return "wrong"
    if lossy or by_share:
        return "approximate by design"
    if distance == 0:
        return "exact"
    return "equal to rounding" if distance <= rounding else "wrong"


def parameter_distance(folder: Path, reference: Path, parameters: set[str]) -> float:
    """The largest difference in any parameter of two saved models, relative to the largest number in it."""
    import torch

    ours, theirs = (torch.load(place / "model.pt", weights_only=True) for place in (folder, reference))
    largest = max(theirs[name].abs().max().item() for name in parameters)
    worst = 0.0
    for name in parameters:
        one, other = ours[name].double(), theirs[name].double()
        scale = max(other.abs().max().item(), largest * NEGLIGIBLE, 1e-300)
        apart = (one - other).abs().max().item() / scale
        if not math.isfinite(apart):
            return math.inf
        worst = max(worst, apart)
    return worst
