"""Settings are resolved here, once, and everything that can be refused is refused before a process starts."""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from gradsync import data, models, strategies
from gradsync.cluster import lifecycle, network, spec
from gradsync.comm import TorchComm
from gradsync.config import Facts, Resolved, RunConfig, resolve, strategy_name, suited, worker_count
from gradsync.config.plugin import is_reference
from gradsync.config.probe import ProbeConfig, resolve_probe
from gradsync.config.resolved import NO_FP16
from gradsync.config.task import CROSS_ENTROPY, metric_name
from gradsync.data.batches import Batch, Layout
from gradsync.errors import InputError
from gradsync.exhibit.columns import COLUMNS
from gradsync.launch.mpi.mpiexec import find_mpiexec
from gradsync.launch.processes import words_of
from gradsync.launch.slurm import job
from gradsync.launch.slurm.script import check_options
from gradsync.launch.torchrun import agent_options
from gradsync.live import trackers
from gradsync.rank import world
from gradsync.strategies.server.parameter_server import shards
from gradsync.train import optim
from gradsync.train.shapes import classes_of
from gradsync.train.task import make_task

if TYPE_CHECKING:
    from gradsync.study.verify import VerifyStudy

TRIED = 2  # samples
COMPILERS = (os.environ.get("CXX", "g++"), "g++", "clang++", "c++")


def check(asked: Sequence[RunConfig], to_start: bool = True) -> list[Resolved]:
    """Resolve the runs that are asked for, in the same order; an error says why one of them cannot be made.

    ``to_start``: this command starts them; otherwise the user does, perhaps on another machine.
    """
    found = [resolved(item) for item in asked]
    for config in found:
        check_settings(config)
        check_layout(config)
        if to_start:
            check_launcher(config)
    for _, group in groupby(sorted(found, key=model_and_data), model_and_data):
        build(list(group))
    return found


def resolved(asked: RunConfig) -> Resolved:
    """Resolve one run, with the facts of its strategy and the shape of its cluster, if it names one."""
    asked = spec.filled(asked)
    return resolve(asked, strategies.facts_of(strategy_name(asked), asked.options, worker_count(asked)))


def suit(plan: Sequence[RunConfig]) -> list[RunConfig]:
    """Each run of a study with the shared settings its strategy knows; an option no strategy has is refused."""
    facts = facts_in(plan)
    known = sorted({option for each in facts.values() for option in each.option_names})
    for name in sorted({name for item in plan for name in item.options}.difference(known)):
        raise InputError(
            f"none of {', '.join(facts)} has an option {name}. Their options: {', '.join(known) or 'none'}."
        )
    return [suited(item, facts[strategy_name(item)]) for item in plan]


def facts_in(plan: Sequence[RunConfig]) -> dict[str, Facts]:
    """The facts of each strategy of a plan."""
    return {name: strategies.facts_of(name) for name in dict.fromkeys(map(strategy_name, plan))}


def check_settings(config: Resolved) -> None:
    """Check the settings; the strategy checks its own options when it is constructed."""
    roles = strategies.Roles(config.workers, config.server_ranks)
    strategies.construct(config.strategy, TorchComm(size=config.processes), config.buffers, config.options, roles)
    for metric in filter(is_reference, config.metric):
        if metric_name(metric) in COLUMNS:
            raise InputError(f"--metric {metric}: there is a figure of this name already. Give the function another.")
    optim.find(config.optimizer)
    if config.loader_processes and not data.is_own(config.data):
        raise InputError(
            f"--loader-processes is for your own Datasets: {config.data} is batched in memory and needs none."
        )
    trackers.check(config.trackers)


def model_and_data(config: Resolved) -> tuple[Any, ...]:
    """What a model is built and tried with."""
    task = (config.loss, config.metric, config.optimizer)
    return config.model, tuple(config.model_options.items()), config.norm, config.data, task


def build(configs: Sequence[Resolved]) -> nn.Module:
    """Build once what every rank will build, and return the model. The runs share the model and the data."""
    config = min(configs, key=lambda item: min(item.train_samples or math.inf, item.test_samples or math.inf))
    samples = data.load(
        config.data,
        native=models.native_data(config.model, config.model_options),
        seed=config.seed,
        # As for a rank beyond the last: the number of samples, but none of the samples.
        parts=data.Parts(data.Wanted(config.train_samples, 1, 1), data.Wanted(config.test_samples, 1, 1)),
    )
    model = models.build(
        config.model,
        shape=samples.shape,
        classes=samples.classes,
        norm=config.norm,
        options=config.model_options,
        is_tokens=samples.is_tokens,
    )
    check_task(config, samples, model)
    if is_reference(config.optimizer):
        optim.make(config, model)
    for servers in {item.servers for item in configs if item.has_servers}:
        shards([parameter for parameter in model.parameters() if parameter.requires_grad], servers)
    if any(item.eval for item in configs) and not len(samples.test):
        raise InputError(f"{config.data} has no test samples: use --no-eval, or data that has some.")
    workers = max(item.workers for item in configs)
    if len(samples.train) < workers:
        raise InputError(
            f"{workers} workers cannot share {len(samples.train)} training samples: use fewer workers or more data."
        )
    return model


def check_task(config: Resolved, samples: data.DataSet, model: nn.Module) -> None:
    """Check that loss and metrics fit the data and the model, by the first samples and the model's outputs for them.

    Other samples may differ: training checks again. What is all built in, and made for each other, is not tried.
    """
    task = make_task(config, torch.device("cpu"))
    own_data = data.is_own(config.data) and len(samples.train) > 0
    own = own_data or is_reference(config.model) or any(map(is_reference, config.metric))
    if not own and config.loss == CROSS_ENTROPY:
        return
    batch = data.first_batch(samples.train, TRIED) if own_data else samples.example
    if config.loss == CROSS_ENTROPY:
        classes_of(batch.target)
    outputs = first_outputs(model, batch)
    with torch.no_grad():
        if outputs is None:
            return
        task.loss(outputs, batch.target, batch.samples)
        task.sums(outputs, batch)


def first_outputs(model: nn.Module, batch: Batch) -> Any:
    """None if the model cannot be tried here: it may need a GPU, or a larger batch. The ranks will find out."""
    model.eval()
    try:
        with torch.no_grad():
            return batch.map(Layout().input).call(model)
    except InputError:
        raise
    except Exception:
        return None
    finally:
        model.train()


def check_layout(config: Resolved) -> None:
    """Refuse what the launcher cannot express, wherever it is started."""
    if config.launcher == "slurm":
        check_options(config)
    if config.launcher == "torchrun":
        agent_options(config.places)


def check_launcher(config: Resolved) -> None:
    """Check that this machine has what the launcher needs."""
    if config.launcher not in ("slurm", "torchrun"):  # a login node may have no GPU
        device = world.choose_device(config.device, world.World())
        if config.precision == "fp16" and device.type == "cpu":
            raise InputError(NO_FP16)
        if config.compile and device.type == "cpu" and not any(map(shutil.which, COMPILERS)):
            raise InputError(
                "--compile needs a C++ compiler on a CPU, and none is here: install g++, or leave it out."
            )
    if config.transport == "mpi" and importlib.util.find_spec("mpi4py") is None:
        raise InputError("--transport mpi needs mpi4py and an MPI: pip install 'gradsync[mpi]'.")
    if config.launcher == "mpi":
        find_mpiexec(config.mpiexec)
    if config.launcher == "slurm":
        job.check(config)
    if config.hosts:
        words_of("--ssh", config.ssh)
    if config.cluster:
        network.refuse_cut_nodes(spec.find_cluster(config.cluster))
    elif config.is_emulated:
        lifecycle.check(config)


def check_probe(asked: ProbeConfig) -> list[Resolved]:
    """Resolve a collective benchmark, one run for every transport, and check each."""
    found = resolve_probe(asked)
    for config in found:
        check_layout(config)
        check_launcher(config)
        if config.launcher == "local":  # otherwise it depends on other machines
            here = world.World(size=config.processes, local_size=config.processes)
            world.choose_backend(here, world.choose_device(config.device, here), config.transport)
    return found


def inform(study: VerifyStudy) -> None:
    """Give the study what its plan and verdicts depend on: the facts of the strategies and of the model."""
    from gradsync.study.verify import ModelFacts

    chosen = study.strategies or [name for name in strategies.STRATEGIES if name not in ("local", "none")]
    study.facts = {name: strategies.facts_of(name) for name in chosen}
    if not study.strategies:
        needs_peers = study.sync_bn or study.buffers not in (None, "local") or study.start == "own"
        refuse = [name for name, facts in study.facts.items() if facts.has_servers or facts.in_one_process]
        chosen = [name for name in chosen if not (needs_peers and name in refuse)]
    study.strategies = tuple(chosen)
    if len(study.plan()) == 1:
        barred = [name for name, facts in study.facts.items() if not facts.over_mpi]
        why = f"{', '.join(barred)} does not run over MPI" if barred else "local is what the others are compared with"
        raise InputError(f"nothing to verify: {why}. Name other strategies or transports.")
    module = build([resolved(study.run("local", 1))])
    parameters = frozenset(name for name, _ in module.named_parameters())
    study.model_facts = ModelFacts(parameters, tuple(models.by_share(module, study.sync_bn)))
