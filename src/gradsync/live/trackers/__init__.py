"""Where else a run is logged while it goes on: TensorBoard, MLflow, Weights & Biases, or the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from gradsync.config.values import listed
from gradsync.errors import InputError, unknown

if TYPE_CHECKING:
    from gradsync.live.trackers.base import MakeTracker

TRACKERS = {"tensorboard": "EventFiles", "mlflow": "MlflowRun", "wandb": "WandbRun"}
"""The name of a tracker, of its module here, of the package it needs and of the pip extra -> its class."""


def check(names: Sequence[str], setting: str = "--log-to") -> None:
    """Refuse a tracker that does not exist, or whose package is not installed. Imports none of these packages."""
    for name in names:
        if is_own(name):
            maker(name, setting)
        elif name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS, f"Or your own: {setting} file.py:Class.")
        elif not is_installed(name):
            raise InputError(f"{setting} {name} needs the package {name}: pip install 'gradsync[{name}]'.")


def named(log_to: str | Sequence[str]) -> tuple[str, ...]:
    """The trackers that are named in Python, checked."""
    names = tuple(listed(log_to) if isinstance(log_to, str) else log_to)
    check(names, "log_to")
    return names


def is_own(name: str) -> bool:
    return ":" in name


def is_installed(package: str) -> bool:
    """A mere folder of that name, such as the one that wandb leaves behind, is no package."""
    found = find_spec(package)
    return found is not None and found.origin is not None


def maker(name: str, setting: str = "--log-to") -> MakeTracker:
    """The class of a tracker, with what it imports."""
    if is_own(name):
        from gradsync.config.plugin import resolve

        return cast("MakeTracker", resolve(name, setting.removeprefix("--")))
    return getattr(import_module(f"gradsync.live.trackers.{name}"), TRACKERS[name])
