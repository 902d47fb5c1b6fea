"""The user's own code by reference: ``package.module:function``, ``path/file.py:function`` or an object of a Python
session; and what it raises.

Here, and nowhere else, a reference becomes what it names.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import torch

from gradsync.config import objects
from gradsync.config.values import is_reference as is_reference
from gradsync.errors import InputError, unknown


def call(reference: str, what: str, **arguments: Any) -> Any:
    """Run the user's function. If it raises, the error holds its traceback and none of ours."""
    function = resolve(reference, what)
    try:
        return function(**arguments)
    except Exception as error:
        raise users_error(f"--{what} {objects.name_of(reference)} raised an error", error) from error


def resolve(reference: str, what: str) -> Callable[..., Any]:
    if objects.is_object(reference):
        return objects.recall(reference, what)
    place, _, name = reference.rpartition(":")
    module = import_file(Path(place), what) if place.endswith(".py") else import_module(place, what)
    function = getattr(module, name, None)
    if not callable(function):
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise unknown(f"function in {place}:", name, functions)
    return function


def import_file(path: Path, what: str) -> ModuleType:
    """The file as a module of its own, imported anew if it has changed. It may import its siblings."""
    try:
        is_there = path.is_file()
    except (OSError, ValueError):  # a name too long, or with a null byte in it
        is_there = False
    if not is_there:
        raise InputError(f"--{what} names {path}, and there is no such file (looked from {Path.cwd()}).")
    path = path.resolve()
    place = digest(str(path).encode())  # files of one name in two folders are two modules
    name = f"gradsync_user_{path.stem}_{place}"
    content = digest(path.read_bytes())
    known = sys.modules.get(name)
    if known and vars(known).get("__content__") == content:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # so that loader processes can unpickle its classes
    with siblings_of(path.parent):
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise users_error(f"--{what}: importing {path} raised an error", error) from error
    vars(module)["__content__"] = content
    return module


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


@contextmanager
def siblings_of(folder: Path) -> Iterator[None]:
    """Modules of this folder can be imported, now and when something is unpickled later.

    A module of the same name from the folder of another file of the user's is out of the way meanwhile.
    """
    tops = {
        name for name in sys.modules if "." not in name and has_module(folder, name) and is_from_another(folder, name)
    }
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in tops}
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))
    _folders.add(folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for name, module in hidden.items():
            sys.modules.setdefault(name, module)


_folders: set[Path] = set()
"""Those that are on the path because a file of the user's is in them."""


def has_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def is_from_another(folder: Path, name: str) -> bool:
    """Whether an imported module or package lies in the folder of another file of the user's."""
    file = Path(getattr(sys.modules[name], "__file__", None) or "")
    place = file.parent.parent if file.name == "__init__.py" else file.parent
    return place in _folders - {folder}


def import_module(name: str, what: str) -> ModuleType:
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
