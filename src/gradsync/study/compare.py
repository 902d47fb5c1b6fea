"""The same model, data and seed under several strategies, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from gradsync import launch
from gradsync.config import ONE_PROCESS, WITH_SERVERS, RunConfig, Settings, Transport, as_text
from gradsync.errors import InputError
from gradsync.record import Run
from gradsync.values import at_least

MOST_RUNS = 10_000  # of one command: at three seconds each, more than a night
FOUR_WAYS = ("local", "gather-scatter", "all-reduce", "ddp")


@dataclass(kw_only=True)
class Several(Settings):
    """What runs that differ in strategy or workers have in common."""

    workers: tuple[int, ...] = ()
    """How many workers share each batch, except with local: one number, or several, for instance 1,2,4.
    Default: --workers-per-node on every node, else 2."""

    servers: int | None = None
    """Parameter servers, for the strategies that have them. Default: 1."""

    transport: Transport = "auto"
    """What carries the messages, except with local: auto, gloo, nccl or mpi."""

    options: dict[str, str] = field(default_factory=dict)
    """Strategy options, one flag each; given to the strategies that have them."""

    def __post_init__(self) -> None:
        if isinstance(self.workers, int):
            self.workers = (self.workers,)
        super().__post_init__()
        at_least(self, "servers", 1)
        self.options = as_text(self.options)


@dataclass(kw_only=True)
class CompareConfig(Several):
    """What to hold fixed, and the strategies to compare. local runs in one process, the others on --workers."""

    strategies: tuple[str, ...] = FOUR_WAYS
    """The strategies to compare, in this order."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.strategies:
            raise InputError("--strategies is empty: name at least one.")
        refuse_too_many_runs(len(self.strategies) * max(1, len(self.workers)))


def refuse_too_many_runs(count: int) -> None:
    """Before a list of them is made."""
    if count > MOST_RUNS:
        raise InputError(f"that is up to {count:,} runs: one command makes at most {MOST_RUNS:,}. Vary less at once.")


def run_configs(config: CompareConfig, option_names: dict[str, set[str]]) -> list[RunConfig]:
    """One config per strategy. ``option_names`` tells which options each strategy has."""
    known = set().union(*option_names.values())
    for name in config.options:
        if name not in known:
            raise InputError(
                f"none of {', '.join(config.strategies)} has an option {name}. "
                f"Their options: {', '.join(sorted(known)) or 'none'}."
            )
    shared = {item.name: getattr(config, item.name) for item in fields(Settings)}
    numbers = config.workers or (RunConfig(**shared).default_workers,)
    # With one number of workers the global batch is what is held fixed, for local too.
    if config.batch_per_worker and len(numbers) == 1:
        shared |= {"batch_size": config.batch_per_worker * numbers[0], "batch_per_worker": None}
    alone = {"inject": None} | ({"launcher": None, "mpiexec": None} if config.launcher == "mpi" else {})
    return [
        RunConfig(
            **shared | (alone if strategy in ONE_PROCESS else {}),
            workers=workers,
            strategy=strategy,
            servers=config.servers if strategy in WITH_SERVERS else None,
            transport="auto" if strategy in ONE_PROCESS else config.transport,
            options={name: value for name, value in config.options.items() if name in option_names[strategy]},
        )
        for strategy in config.strategies
        for workers in ((1,) if strategy == "local" else numbers)
    ]


def compare(configs: list[RunConfig], watch: launch.Watch) -> Iterator[Run]:
    """Run after run; an interrupted one is the last."""
    for config in configs:
        run = launch.run(config, watch)
        yield run
        if run.stopped_by:
            return
