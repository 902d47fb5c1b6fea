"""In which settings runs differ, and how a setting is said: in the labels of runs, and while they are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradsync.config.objects import name_of

# Setting -> how its value is said, where that is not the name of the setting and the value.
WORDS = {
    "lr": "learning rate {}",
    "lr_scaling": "{} scaling of the learning rate",
    "batch_size": "batch {}",
    "optimizer": "{}",
    "precision": "{}",
    "model": "{}",
    "data": "{}",
    "transport": "{}",
    "launcher": "{}",
    "bandwidth": "{}",
    "latency": "{} latency",
    "memory": "{} of memory",
    "cpus": "{} cores per node",
}
GROUPS = ("options", "model_options")
"""Settings that hold several, each under its own name."""


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting, with one name for each option: ``options.bucket-mb``."""
    options = {f"{group}.{name}": value for group in GROUPS for name, value in (config.get(group) or {}).items()}
    return {name: value for name, value in config.items() if name not in GROUPS} | options


def varied(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which these differ, in their order; the seed, of repeats, is the last."""
    each = [{name: str(value) for name, value in settings(config).items()} for config in configs]
    names = dict.fromkeys(name for config in each for name in config)
    found = [name for name in names if len({config.get(name) for config in each}) > 1]
    return sorted(found, key=lambda name: name == "seed")


def said(name: str, value: Any) -> str:
    """A setting in words; nothing where no value was given."""
    words = name.rpartition(".")[2].replace("_", " ")
    if isinstance(value, bool):
        return words if value else f"no {words}"
    text = ",".join(map(name_of, value)) if isinstance(value, (tuple, list)) else str(value)
    return WORDS.get(name, f"{words} {{}}").format(name_of(text)) if text and value is not None else ""
