"""Train a model data-parallel under any synchronization strategy."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gradsync.errors import InputError, RunFailed
from gradsync.version import __version__

if TYPE_CHECKING:
    from gradsync import testing
    from gradsync.comm import Comm
    from gradsync.library.attach import attach
    from gradsync.library.runs.calls import compare, frame, load, sweep, train
    from gradsync.observe.in_process import watch
    from gradsync.strategies import Strategy

PLACES = {
    "attach": "gradsync.library.attach",
    **dict.fromkeys(("train", "compare", "sweep", "load", "frame"), "gradsync.library.runs.calls"),
    "watch": "gradsync.observe.in_process",
    "Strategy": "gradsync.strategies",
    "Comm": "gradsync.comm",
}
"""Public name -> its module. Most need torch; importing them on first use keeps ``gradsync --help`` quick."""

__all__ = [
    "Comm",
    "InputError",
    "RunFailed",
    "Strategy",
    "__version__",
    "attach",
    "compare",
    "frame",
    "load",
    "sweep",
    "testing",
    "train",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name == "testing":
        return import_module("gradsync.testing")
    if name in PLACES:
        return getattr(import_module(PLACES[name]), name)
    raise AttributeError(f"module 'gradsync' has no attribute {name!r}")


class Public(ModuleType):
    """This module, in which ``train`` is the function, also after the package of that name has been imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in PLACES and isinstance(value, ModuleType)):  # by which Python makes packages attributes
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = Public
