"""The same model, data and seed under several strategies, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from gradsync import launch
from gradsync.config import RunConfig, Settings, as_text, at_least
from gradsync.errors import InputError
from gradsync.record import Run

FOUR_WAYS = ("local", "gather-scatter", "all-reduce", "ddp")


@dataclass(kw_only=True)
class CompareConfig(Settings):
    """What to hold fixed, and the strategies to compare. local runs in one process, the others on --workers."""

    workers: int | None = None
    """Processes that share each batch, except with local. Default: 2."""

    strategies: tuple[str, ...] = FOUR_WAYS
    """The strategies to compare, in this order."""

    options: dict[str, str] = field(default_factory=dict)
    """Strategy options, one flag each; given to the strategies that have them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "workers", 1)
        self.options = as_text(self.options)
        if not self.strategies:
            raise InputError("--strategies is empty: name at least one.")


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
    # The global batch is what is held fixed; per worker it is counted over the workers of the others.
    workers = config.workers or 2
    if config.batch_per_worker:
        shared |= {"batch_size": config.batch_per_worker * workers, "batch_per_worker": None}
    return [
        RunConfig(
            **shared | ({"workers": 1, "inject": None} if strategy == "local" else {"workers": workers}),
            strategy=strategy,
            options={name: value for name, value in config.options.items() if name in option_names[strategy]},
        )
        for strategy in config.strategies
    ]


def compare(configs: list[RunConfig], watch: launch.Watch) -> Iterator[Run]:
    """Run after run; an interrupted one is the last."""
    for config in configs:
        run = launch.run(config, watch)
        yield run
        if run.stopped_by:
            return
