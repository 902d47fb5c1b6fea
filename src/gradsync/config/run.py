"""The settings of a run: one field per setting, with the same checks for flags, TOML, JSON and Python.

A field left at None was not given: ``resolve`` works it out from the others, the strategy and the machine.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from gradsync.config.placement import Placement
from gradsync.config.training import ALTERNATIVES, Training
from gradsync.config.values import check_values, flag, shown
from gradsync.errors import InputError, unknown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Transport = Literal["auto", "gloo", "nccl", "mpi"]

LARGEST_OPTION = 10**18
LONGEST_FILE = 1_000_000


@dataclass(kw_only=True)
class Settings(Placement, Training):  # --help lists the flags of the last base first
    """Everything about a run except how many workers there are and how they synchronize."""

    def __post_init__(self) -> None:
        check_values(self)
        self.model_options = as_text(self.model_options, "model_options")
        self.check_training()
        self.check_placement()


@dataclass(kw_only=True)
class RunConfig(Settings):
    """One run: the settings, the workers, and their synchronization strategy."""

    workers: int | None = None
    """Processes that share each batch. Default: 1 for local, else --workers-per-node on every node, else 2."""

    strategy: str | None = None
    """local, gather-scatter, reduce-broadcast, all-reduce, ring, bucketed, ddp, data-parallel, ps-sync, ps-async,
    none, or your own as file.py:Class. Default: local for one worker on one node, else ddp (bucketed over MPI)."""

    servers: int | None = None
    """Parameter servers, which divide the parameters among them (ps-sync, ps-async). Default: 1."""

    transport: Transport = "auto"
    """What carries the messages. auto: gloo between CPUs, nccl where every worker has a GPU of its own."""

    options: dict[str, str] = field(default_factory=dict)
    """Options of the strategy, one flag each: --options.bucket-mb 25 (ddp)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options = as_text(self.options)

    @property
    def default_workers(self) -> int:
        """For a strategy with several workers, if their number is not given."""
        nodes = self.nodes or len(self.hosts)
        return nodes * (self.workers_per_node or 1) if nodes else self.workers_per_node or 2

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_split(batch_size: int, workers: int) -> None:
    """A global batch must give every worker the same number of samples."""
    rest = batch_size % workers
    if rest:
        near = [n for n in (batch_size - rest, batch_size - rest + workers) if n > 0]
        raise InputError(
            f"a batch of {batch_size} does not split evenly over {workers} workers. "
            f"Use --batch-size {' or '.join(map(str, near))}, or set --batch-per-worker."
        )


def as_text(options: dict[str, Any], setting: str = "options") -> dict[str, str]:
    """Options travel as text; the strategy, or the model, knows their types."""
    for name, value in options.items():
        if not isinstance(value, (str, int, float)) or (isinstance(value, int) and abs(value) > LARGEST_OPTION):
            raise InputError(f"{flag(setting)}.{name} is {shown(value)}: it must be text, true, false, or a number.")
    return {name.replace("_", "-"): str(value) for name, value in options.items()}


Config = TypeVar("Config", bound=Settings)


def read_file(path: Path, kind: type[Config]) -> dict[str, Any]:
    """The settings in a TOML file, or in the config.json of an earlier run."""
    return settings_in(read_values(path), path, kind)


def read_values(path: Path) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LONGEST_FILE + 1)
    except (OSError, ValueError) as error:  # not UTF-8, or a path with a null byte in it
        raise InputError(f"cannot read the config file {path}: {error}.") from None
    if len(text) > LONGEST_FILE:
        raise InputError(f"{path} is not a config file: it has more than {LONGEST_FILE:,} characters.")
    form = "JSON" if path.suffix == ".json" else "TOML"
    try:
        values = json.loads(text) if form == "JSON" else tomllib.loads(text)
    except ValueError as error:  # also for a number with more than 4,300 digits
        raise InputError(f"{path} is not valid {form}: {error}.") from None
    except RecursionError:
        raise InputError(f"{path} is not valid {form}: its tables and lists are nested too deeply.") from None
    if not isinstance(values, dict):
        raise InputError(f"{path} must hold a table of settings, not a {type(values).__name__}.")
    return values


def settings_in(values: dict[str, Any], path: Path, kind: type[Config]) -> dict[str, Any]:
    known = {item.name for item in fields(kind)}
    settings = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in known:
            raise unknown(f"setting in {path}:", key, known)
        if name in settings:
            raise InputError(f"{path} sets {name} twice, with dashes and with underscores: leave one out.")
        settings[name] = value
    return settings


def over(settings: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """Flags win over a file. A flag also replaces the alternative to its setting: --steps replaces epochs."""
    for one, other in (*ALTERNATIVES, *(pair[::-1] for pair in ALTERNATIVES)):
        if one in flags:
            settings.pop(other, None)
    for name in ("options", "model_options"):
        options = settings.get(name)
        if isinstance(options, dict) and name in flags:
            flags = {**flags, name: options | flags[name]}
    return settings | flags


def load(path: Path) -> RunConfig:
    return RunConfig(**read_file(path, RunConfig))
