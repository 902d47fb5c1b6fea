"""Everything that can be refused before a process starts."""

from __future__ import annotations

from gradsync import data, models, strategies, world
from gradsync.comm import TorchComm
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.plugin import is_reference


def check(configs: list[RunConfig]) -> None:
    """Builds once what every rank will build. The configs share their model and data."""
    for config in configs:
        resolved = config.resolved()
        assert resolved.strategy
        kind = strategies.find(resolved.strategy)
        kind(TorchComm(), buffers=config.buffers, **strategies.parse_options(resolved.strategy, config.options))
    config = configs[0]
    world.choose_device(config.device, world.World())
    if config.loader_processes and not is_reference(config.data):
        raise InputError(
            f"--loader-processes is for your own Datasets: {config.data} is batched in memory and needs none."
        )
    samples = data.load(
        config.data,
        native=models.native_data(config.model),
        seed=config.seed,
        train_samples=config.train_samples,
        test_samples=config.test_samples,
    )
    models.build(config.model, shape=samples.shape, classes=samples.classes, norm=config.norm)
    if config.eval and not len(samples.test):
        raise InputError(f"{config.data} has no test samples: use --no-eval, or data that has.")
    workers = max(item.resolved().workers or 1 for item in configs)
    if len(samples.train) < workers:
        raise InputError(
            f"{workers} workers cannot share {len(samples.train)} training samples: use fewer workers or more data."
        )
