"""The way into a process: by the environment that ``gradsync watch`` gives its children, once torch is imported.

Standard library only: this runs whenever Python starts.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = "GRADSYNC_WATCH"
"""The variable with the folder of the run: by it a process knows that it is watched."""

TRACES = ".watched"
"""In the folder of the run: a file for each Python process that was started, and for each that has imported torch."""

PACKAGE = Path(__file__).resolve().parent.parent


def environment(folder: Path) -> dict[str, str]:
    """What the children of a command need in order to be watched."""
    ours = str(PACKAGE / "observe" / "startup")
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{ours}{os.pathsep}{before}" if before else ours, FOLDER: str(folder.absolute())}


def expect_torch() -> None:
    """Have this process watched as soon as it has imported torch."""
    if FOLDER in os.environ:
        trace("python")
        sys.meta_path.insert(0, AfterTorch(watch))


def trace(what: str) -> None:
    """Leave a trace of this process in the folder of the run, for the sentence about why nothing was recorded."""
    with suppress(OSError):
        (Path(os.environ[FOLDER]) / TRACES / f"{what}-{os.getpid()}").touch()


def watch() -> None:
    trace("torch")
    try:
        import_ours()
        from gradsync.observe.in_process import watch_by_environment

        watch_by_environment()
    except Exception as error:  # the script goes on without us
        print(
            f"gradsync watch: nothing can be recorded in process {os.getpid()}: {type(error).__name__}: {error}. "
            f"HINT: is gradsync installed for {sys.executable}?",
            file=sys.stderr,
        )


def import_ours() -> None:
    """gradsync, from where this file lies. The path of the script's own imports stays as it is."""
    if "gradsync" in sys.modules or importlib.util.find_spec("gradsync") is not None:
        return
    spec = importlib.util.spec_from_file_location(
        "gradsync", PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
    )
    assert spec is not None and spec.loader is not None
    sys.modules["gradsync"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


class AfterTorch(importlib.abc.MetaPathFinder):
    """Finds nothing itself, but has something done once torch is imported. Looking for torch imports nothing."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._looking = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torch" or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = LoaderThen(spec.loader, self._imported)
        return spec

    def _imported(self) -> None:
        with suppress(ValueError):
            sys.meta_path.remove(self)
        self._then()


class LoaderThen(importlib.abc.Loader):
    """A loader that is followed by a call. It leaves no trace in what it has loaded."""

    def __init__(self, loader: Any, then: Callable[[], None]) -> None:
        self._loader, self._then = loader, then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
