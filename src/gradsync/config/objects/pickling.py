"""Objects of a session as bytes: what the ranks read, and what tells two objects of one name apart."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

TRACKER = re.compile(rb"\x8c\x20[0-9a-f]{32}")  # cloudpickle gives every class a random number, as a short string
PACKAGE = str(Path(__file__).parents[2])


def dumped(thing: Any) -> bytes:
    import cloudpickle

    with by_value(modules_of(thing)):
        return cloudpickle.dumps(thing)


def fingerprint(thing: Any) -> str:
    """A hash of what the object consists of: the same in another session, where it is defined by the same text."""
    import cloudpickle
    import torch

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, found: Any) -> Any:
            if isinstance(found, CodeType):
                return tuple, (essence(found),)
            if isinstance(found, torch.Tensor):
                content = found.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
                return tuple, ((str(found.dtype), tuple(found.shape), content),)
            reduced = super().reducer_override(found)
            return without_file(reduced) if isinstance(found, FunctionType) else reduced

    whole = io.BytesIO()
    with by_value(modules_of(thing)):
        Pickler(whole).dump(thing)
    return hashlib.sha256(TRACKER.sub(b"", whole.getvalue())).hexdigest()[:12]


def essence(code: CodeType) -> tuple[Any, ...]:
    """What a function does, wherever it was defined: a cell has another file name in every session."""
    constants = [sorted(map(repr, item)) if isinstance(item, frozenset) else item for item in code.co_consts]
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return (code.co_name, code.co_code, constants, *names, code.co_argcount, code.co_kwonlyargcount, code.co_flags)


def without_file(reduced: Any) -> Any:
    """A function as cloudpickle takes it apart, without the file that its globals name."""
    if not isinstance(reduced, tuple):
        return reduced
    make, arguments, *rest = reduced
    plain = [
        {name: value for name, value in item.items() if name != "__file__"} if isinstance(item, dict) else item
        for item in arguments
    ]
    return (make, tuple(plain), *rest)


def modules_of(thing: Any) -> list[ModuleType]:
    """The user's module that defines it, unless it is installed: the ranks get what the session has imported."""
    kinds = [thing, type(thing), getattr(thing, "func", None), *map(type, getattr(thing, "args", ()))]
    names = {getattr(kind, "__module__", None) for kind in kinds} - {None, "__main__"}
    found = (sys.modules.get(str(name)) for name in names)
    return [module for module in found if module is not None and is_own(module)]


def is_own(module: ModuleType) -> bool:
    installed = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    file = getattr(module, "__file__", None)
    return file is not None and not str(file).startswith((*installed, PACKAGE))


@contextmanager
def by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Pickle what these modules define as if it had been defined in the session."""
    from cloudpickle import cloudpickle

    new = [module for module in modules if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in new:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in new:
            cloudpickle.unregister_pickle_by_value(module)
