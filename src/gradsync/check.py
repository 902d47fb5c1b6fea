"""Everything that can be refused before a process starts."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import nn

from gradsync import data, models, strategies, world
from gradsync.cluster import lifecycle, network, spec
from gradsync.comm import TorchComm
from gradsync.config import ONE_PROCESS, WITH_SERVERS, RunConfig
from gradsync.config.probe import ProbeConfig
from gradsync.errors import InputError
from gradsync.launch import slurm
from gradsync.launch.mpi import find_mpiexec
from gradsync.launch.processes import words_of
from gradsync.launch.slurm_script import check_options
from gradsync.launch.torchrun import agent_options
from gradsync.plugin import is_reference
from gradsync.strategies.parameter_server import shards
from gradsync.study.verify import Claim, ModelFacts, VerifyConfig
from gradsync.train.loss import refuse_labels, refuse_outputs, wrong_class


def check(configs: list[RunConfig], to_start: bool = True) -> nn.Module:
    """Builds once what every rank will build, and returns the model. The configs share it and the data.

    ``to_start``: from here; else somebody else starts the processes, perhaps elsewhere.
    """
    for config in configs:
        resolved = config.resolved()
        assert resolved.strategy
        roles = strategies.Roles(resolved.workers or 1, resolved.server_ranks)
        if strategies.find(resolved.strategy).has_servers and resolved.strategy not in WITH_SERVERS:
            raise InputError(
                f"--strategy {resolved.strategy} has servers: gradsync starts those of {', '.join(WITH_SERVERS)}."
            )
        strategies.construct(
            resolved.strategy, TorchComm(size=resolved.processes), config.buffers, config.options, roles
        )
        check_layout(resolved)
        if to_start:
            check_launcher(resolved)
    config = configs[0]
    if to_start and config.resolved().launcher not in ("slurm", "torchrun"):  # a login node may have no GPU
        world.choose_device(config.device, world.World())
    if config.loader_processes and not is_reference(config.data):
        raise InputError(
            f"--loader-processes is for your own Datasets: {config.data} is batched in memory and needs none."
        )
    if config.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise InputError("--tensorboard needs the package tensorboard: pip install 'gradsync[tensorboard]'.")
    samples = data.load(
        config.data,
        native=models.native_data(config.model),
        seed=config.seed,
        # As a rank beyond the last: how many there are, and none of them.
        parts=data.Parts(data.Wanted(config.train_samples, 1, 1), data.Wanted(config.test_samples, 1, 1)),
    )
    model = models.build(config.model, shape=samples.shape, classes=samples.classes, norm=config.norm)
    check_loss(config, samples, model)
    for item in configs:
        servers = item.resolved().servers
        if servers:
            shards([parameter for parameter in model.parameters() if parameter.requires_grad], servers)
    if config.eval and not len(samples.test):
        raise InputError(f"{config.data} has no test samples: use --no-eval, or data that has.")
    workers = max(item.resolved().workers or 1 for item in configs)
    if len(samples.train) < workers:
        raise InputError(
            f"{workers} workers cannot share {len(samples.train)} training samples: use fewer workers or more data."
        )
    return model


def check_loss(config: RunConfig, samples: data.DataSet, model: nn.Module) -> None:
    """Whether the loss there is fits what the user brings: told from the first sample, and the model's output for it.

    Another sample may differ: the training looks again.
    """
    example, label = torch.zeros(1, *samples.shape), samples.classes - 1
    if is_reference(config.data) and len(samples.train):
        inputs, target = samples.train[0]  # type: ignore[index] # the user's own Dataset
        found = as_label(config.data, target)
        refuse_labels(found.dtype, found.shape)
        example, label = inputs[None], int(found)
    classes = samples.classes
    if is_reference(config.model):
        outputs = first_outputs(model, example)
        if outputs is None:
            return
        refuse_outputs(outputs, 1)
        classes = outputs.shape[1]
    if not 0 <= label < classes:
        raise wrong_class(label, classes)


def as_label(name: str, target: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(target)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"--data {name} has labels of type {type(target).__name__}: each must be a class, a whole number from 0."
        ) from None


def first_outputs(model: nn.Module, example: torch.Tensor) -> Any:
    """None where the model cannot be tried here: it may need a GPU, or a batch. The ranks will tell."""
    model.eval()
    try:
        with torch.inference_mode():
            return model(example.float() if example.is_floating_point() else example)
    except Exception:
        return None
    finally:
        model.train()


def check_layout(config: RunConfig) -> None:
    """What an engine cannot be told, wherever it is started."""
    if config.launcher == "slurm":
        check_options(config)
    if config.launcher == "torchrun":
        agent_options(config.places)


def check_launcher(config: RunConfig) -> None:
    """What the engine needs here."""
    if config.transport == "mpi" and importlib.util.find_spec("mpi4py") is None:
        raise InputError("--transport mpi needs mpi4py and an MPI: pip install 'gradsync[mpi]'.")
    if config.launcher == "mpi":
        find_mpiexec(config.mpiexec)
    if config.launcher == "slurm":
        slurm.check(config)
    if config.hosts:
        words_of("--ssh", config.ssh)
    if config.cluster:
        network.refuse_cut_nodes(spec.find(config.cluster))
    elif config.is_emulated:
        lifecycle.check(config)


def check_probe(config: ProbeConfig) -> None:
    for run in config.runs():
        resolved = run.resolved()
        check_layout(resolved)
        check_launcher(resolved)
        if resolved.launcher == "local":  # else other machines decide
            here = world.World(size=resolved.processes, local_size=resolved.processes)
            world.choose_backend(here, world.choose_device(resolved.device, here), resolved.transport)


def check_verify(config: VerifyConfig) -> tuple[dict[str, Claim], ModelFacts]:
    """The strategies to verify, what each claims to be, and what to know of the model."""
    left_out = ["local", "none"]
    if config.sync_bn or config.buffers not in (None, "local") or config.start == "own":
        left_out += [*WITH_SERVERS, *ONE_PROCESS]  # they refuse these settings
    names = config.strategies or [name for name in strategies.STRATEGIES if name not in left_out]
    runs = config.runs(names)
    if not runs:
        raise InputError("nothing to verify: ddp does not run over MPI. Name other strategies or transports.")
    module = check(runs)
    kinds = {name: strategies.find(name) for name in names}
    claims = {name: Claim(kind.lossy, kind.asynchronous) for name, kind in kinds.items()}
    parameters = {name for name, _ in module.named_parameters()}
    return claims, ModelFacts(parameters, models.by_share(module, config.sync_bn))
