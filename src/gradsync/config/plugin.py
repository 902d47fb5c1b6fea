"""What the user brings: ``package.module:function``, ``path/file.py:function``, or an object of a Python session."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from gradsync.config import objects
from gradsync.errors import InputError, unknown


def is_reference(name: str) -> bool:
    return ":" in name


def call(reference: str, what: str) -> Any:
    """Run the user's function. If it raises, the error holds its traceback and none of ours."""
    function = resolve(reference, what)
    try:
        return function()
    except Exception as error:
        raise users_error(f"--{what} {reference} raised an error", error) from error


def resolve(reference: str, what: str) -> Callable[[], Any]:
    if objects.is_object(reference):
        return objects.recall(reference, what)
    place, _, name = reference.rpartition(":")
    module = import_file(Path(place), what) if place.endswith(".py") else import_module(place, what)
    function = getattr(module, name, None)
    if not callable(function):
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown(f"function in {place}:", name, functions)
    return function


def import_file(path: Path, what: str) -> Any:
    try:
        is_there = path.is_file()
    except (OSError, ValueError):  # a name too long, or with a null byte in it
        is_there = False
    if not is_there:
        raise InputError(f"--{what} names {path}, and there is no such file (looked from {Path.cwd()}).")
    spec = importlib.util.spec_from_file_location(f"gradsync_user_{path.stem}", path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # so that loader processes can unpickle its classes
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise users_error(f"--{what}: importing {path} raised an error", error) from error
    return module


def import_module(name: str, what: str) -> Any:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise InputError(
                f"--{what} names the module {name}, which Python cannot find. Install it, run from the folder "
                "that holds it, or give the file: path/file.py:function."
            ) from None
        raise users_error(f"--{what}: importing {name} raised an error", error) from error
    except Exception as error:
        raise users_error(f"--{what}: importing {name} raised an error", error) from error


def users_error(sentence: str, error: Exception) -> InputError:
    return InputError(f"{sentence}:\n\n{users_traceback(error).rstrip()}")


def users_traceback(error: BaseException) -> str:
    """The traceback from where the user's code begins; the whole one if it never does."""
    lines = traceback.format_exception(type(error), error, users_frames(error.__traceback__) or error.__traceback__)
    return "".join(lines)


def users_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace and is_in_between(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def is_in_between(file: str) -> bool:
    """Whether a frame is ours, torch's or Python's own, between our call and the user's code."""
    ours = (str(Path(__file__).parent.parent), str(Path(torch.__file__).parent), "<frozen importlib")
    return file.startswith(ours) or (file.startswith(sysconfig.get_path("stdlib")) and "site-packages" not in file)
