"""The equivalence certificate: do N workers compute what one process computes?

1. One process trains k steps on the global batches of the run.
2. Each strategy trains the same k steps on every number of workers.
3. The parameters are compared: with those of the one process, and between the ranks, bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal

from gradsync.config import Facts, RunConfig, Settings, Transport, check_split
from gradsync.config.values import LIMITS
from gradsync.errors import InputError
from gradsync.exhibit.form import Section
from gradsync.record import Run, model_file, rank_records
from gradsync.record.certificate import Certificate, Check, Verdict, read_certificate, write_certificate
from gradsync.record.run import EARLIER_FACTS
from gradsync.study.checks import END, checks
from gradsync.study.making.base import Study
from gradsync.study.making.several import refuse_too_many_runs

EPSILON = {"fp64": 2.0**-52, "fp32": 2.0**-23, "bf16": 2.0**-7, "fp16": 2.0**-10}
BATCH, STEPS = 24, 20
NEGLIGIBLE = 1e-6  # of the largest number in the model: a parameter that small is compared with this instead
MOST_STRATEGIES = 16  # at least as many as are built in, which is the default
OF_STRATEGY = ("strategy", "workers", "servers", "transport")  # in which a run differs from its reference


@dataclass(frozen=True)
class ModelFacts:
    """What must be known about the model to compare two of its copies."""

    parameters: frozenset[str] = frozenset()
    by_share: tuple[str, ...] = ()
    """What it computes from each worker's share of a batch alone, so that N workers differ from one."""


@dataclass(kw_only=True)
class VerifyStudy(Study, Settings):
    """What to train, with which strategies. float64 by default, so that a difference is a mistake, not rounding."""

    model: str = "logistic"
    """A built-in model, or your own as package.module:function or file.py:function."""

    strategies: tuple[str, ...] = ()
    """Which synchronization strategies; also your own as file.py:Class. Default: all that synchronize."""

    workers: tuple[int, ...] = (2, 3, 4)
    """How many workers, for instance 2,3,4."""

    servers: tuple[int, ...] = (1,)
    """How many parameter servers, for strategies that have them, for instance 1,2."""

    transport: tuple[Transport, ...] = ("auto",)
    """What carries the messages: for instance gloo,mpi (ddp is left out over mpi)."""

    steps: int | None = None
    """Steps to train before comparing. Default: 20, unless --epochs is given."""

    precision: Literal["fp64", "fp32", "bf16", "fp16"] = "fp64"
    """bf16 and fp16 are autocast over float32 parameters."""

    threads: int | None = 1
    """Compute threads per worker."""

    eval: bool = False
    """Test as well."""

    measure: bool = False
    """Record the ledger as well."""

    conformance: bool = True
    """Also try what a strategy must do besides training: same start, declared bytes, state saved and restored, hooks
    removed, and the training loops of users."""

    name: ClassVar[str] = "verify"
    title: ClassVar[str] = "Equivalence certificate: N workers against one process"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("workers", "servers", "transport"):
            if not getattr(self, name):
                raise InputError(f"--{name} is empty: name at least one.")
        if min(self.servers) < 1:
            raise InputError("--servers has 0: each must be 1 or more.")
        ways = max(len(self.strategies), MOST_STRATEGIES) * len(self.servers)
        refuse_too_many_runs(self.repeat * ways * len(self.workers) * len(self.transport))
        if self.launcher:
            raise InputError("verify chooses the launcher itself: give it the --transport, for instance gloo,mpi.")
        if self.trackers:
            raise InputError("verify logs to no trackers: use --log-to and --tensorboard with train or a study.")
        if self.batch_per_worker:
            raise InputError("verify compares runs with the same global batch: set --batch-size, not per worker.")
        if self.epochs is None and self.steps is None:
            self.steps = STEPS
        self.batch_size = self.batch_size or batch_for(self.workers)
        for workers in self.workers:
            check_split(self.batch_size, workers)
        self.facts: Mapping[str, Facts] = EARLIER_FACTS
        """Facts of the strategies; the command line adds those of the user's own."""

        self.model_facts = ModelFacts()

    def run(
        self, strategy: str, workers: int, servers: int | None = None, transport: Transport = "auto"
    ) -> RunConfig:
        """One of the runs to compare."""
        shared: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(Settings)}
        shared |= {"save_model": True, "servers": servers, "transport": transport}
        return RunConfig(**shared, strategy=strategy, workers=workers)

    def plan(self) -> list[RunConfig]:
        """The reference, then all others, with runs that can share processes next to each other."""
        served = [name for name in self.strategies if self.facts_of(name).has_servers]
        alone = [name for name in self.strategies if self.facts_of(name).in_one_process and name != "local"]
        plain = [name for name in self.strategies if name not in (*served, *alone, "local")]
        found = [self.run("local", 1)]
        for transport in self.transport:
            for workers in self.workers:
                here = [name for name in plain if transport != "mpi" or self.facts_of(name).over_mpi]
                found += [self.run(name, workers, None, transport) for name in here]
                for servers in self.servers:
                    found += [self.run(name, workers, servers, transport) for name in served]
        return found + [self.run(name, workers) for name in alone for workers in self.workers]

    def facts_of(self, strategy: str) -> Facts:
        return self.facts.get(strategy, Facts())

    def is_needless(self, asked: RunConfig, done: Sequence[Run]) -> bool:
        """Without its reference there is nothing to compare a run with."""
        reference = next((run for run in done if is_reference_of(run, asked)), None)
        return reference is not None and reference.status != "completed"

    def complete(self, runs: Sequence[Run]) -> None:
        """Write certificate.json into the folder of each run."""
        for run in runs:
            reference = next((other for other in runs if is_reference_of(other, run.asked)), None)
            if reference is None or run.stopped_by or is_certified(run, reference):
                continue
            if run.status != "completed":
                write_certificate(run.folder, failed(run, reference))
            elif run is not reference:
                facts = self.facts_of(run.asked.strategy or "")
                write_certificate(run.folder, compare(run, reference, self.model_facts, facts))

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        from gradsync.exhibit import certificate

        return [certificate.section(runs), *certificate.conformance(runs)]

    def doubts(self, runs: Sequence[Run]) -> list[str]:
        """What makes runs slow does not change what they compute."""
        return []

    def passes(self, runs: Sequence[Run]) -> bool:
        found = [read_certificate(run.folder) for run in runs]
        return super().passes(runs) and all(certificate.passed for certificate in found if certificate)


def batch_for(workers: Sequence[int]) -> int:
    """A batch that splits evenly over all these numbers of workers, near the default."""
    shared = math.lcm(*workers)
    most = int(LIMITS["batch_size"][1])
    if shared > most:
        raise InputError(
            f"no batch of up to {most:,} samples splits evenly over all these --workers: "
            "verify them in several commands."
        )
    return shared * max(1, round(BATCH / shared))


def is_reference_of(run: Run, asked: RunConfig) -> bool:
    """Whether it is the run in one process that did the same work, from the same seed."""
    left_out = (*OF_STRATEGY, "out")
    same = all(
        getattr(run.asked, item.name) == getattr(asked, item.name)
        for item in fields(RunConfig)
        if item.name not in left_out
    )
    return same and run.asked.strategy == "local"


def is_certified(run: Run, reference: Run) -> bool:
    """Whether it already has a certificate against this reference: a resumed study keeps its certificates."""
    certificate = read_certificate(run.folder)
    return certificate is not None and certificate.reference == reference.folder.name


def failed(run: Run, reference: Run) -> Certificate:
    assert run.error
    where = f"rank {run.error.rank}: " if run.error.rank is not None else ""
    why = f"{where}{run.error.type}: {run.error.message}"
    return Certificate(
        reference=reference.folder.name,
        distance=None,
        same_bits=None,
        verdict="failed",
        differs=why,
        checks=[Check(name=END, holds=False, found=why)] if run.asked.conformance else [],
    )


def compare(run: Run, reference: Run, model: ModelFacts, facts: Facts) -> Certificate:
    assert run.summary
    ranks, workers = run.summary.ranks, run.summary.world_size
    lossy = not facts.exact and not facts.asynchronous
    distance = parameter_distance(run.folder, reference.folder, model.parameters)
    same_bits = len({rank.parameters_sha256 for rank in ranks}) == 1
    same_statistics = len({rank.buffers_sha256 for rank in ranks}) == 1
    inexact = lossy or (facts.asynchronous and workers > 1)
    by_design = ["lossy by design"] if lossy else ["every gradient is an update of its own"] if inexact else []
    by_design += model.by_share if workers > 1 else []
    rounding = EPSILON[run.asked.precision] ** 0.5  # half the digits: mistakes are far larger
    verdict = judge(distance, same_bits, rounding, inexact, by_share=bool(by_design))
    notes = by_design if verdict == "approximate by design" else []
    if not same_bits:
        notes = [*notes, "ranks hold different parameters"]
    if verdict == "wrong" and not distance <= rounding:
        notes = [*notes, "the parameters are not those of one process"]
    if not same_statistics:
        notes = [*notes, "each rank keeps BatchNorm statistics of its own (--buffers)"]
    certificate = Certificate(
        reference=reference.folder.name,
        distance=distance if math.isfinite(distance) else None,
        same_bits=same_bits,
        verdict=verdict,
        differs="; ".join(notes),
    )
    if run.asked.conformance:
        records = rank_records(run.folder, run.resolved.trainers, stamps_until=0)
        rows = [record.conformance for record in records if record.conformance]
        certificate.checks = checks(certificate, rows, rounding, inexact)
    return certificate


def judge(distance: float, same_bits: bool, rounding: float, lossy: bool, by_share: bool) -> Verdict:
    """What is not meant to be equal gets a distance and never a pass. Only a lossy strategy may let ranks differ."""
    if not math.isfinite(distance) or not (same_bits or lossy):
        return "wrong"
    if lossy or by_share:
        return "approximate by design"
    if distance == 0:
        return "exact"
    return "equal to rounding" if distance <= rounding else "wrong"


def parameter_distance(folder: Path, reference: Path, parameters: frozenset[str] | set[str]) -> float:
    """The largest difference in any parameter of two saved models, relative to the largest number in it."""
    import torch

    ours, theirs = (torch.load(model_file(place), weights_only=True) for place in (folder, reference))
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
