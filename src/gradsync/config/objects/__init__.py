"""Objects of a Python session as settings: a class, a function or a model that was defined there, and is in no file.

1. The call that is given an object puts a reference in its place, such as ``notebook:MySync@3f2a91bc04d7``: its name,
   and a hash of what it consists of, so that two classes of the same name are two settings.
2. The command that starts a run writes the objects into the run folder, pickled with cloudpickle.
3. The ranks of that run read them there. Nobody else does: whoever shows the run sees the names alone.
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradsync.config.objects.pickling import dumped, fingerprint
from gradsync.config.values import texts_in
from gradsync.errors import InputError

PLACE = "notebook"
REFERENCE = re.compile(rf"{PLACE}:(?P<name>[\w.-]+)@[0-9a-f]{{12}}")

_here: dict[str, Any] = {}
"""Reference -> object, of the session that defined it."""

_there: dict[str, bytes] = {}
"""Reference -> object as it was pickled, in the ranks."""


def is_object(reference: str) -> bool:
    return REFERENCE.fullmatch(reference) is not None


def name_of(reference: str) -> str:
    """What to call it: an object by its name, everything else as it was given."""
    found = REFERENCE.fullmatch(str(reference))
    return found["name"] if found else str(reference)


def references_in(settings: Mapping[str, Any]) -> list[str]:
    """The objects that these settings refer to."""
    return sorted({text for value in settings.values() for text in texts_in(value) if is_object(text)})


# --- in the session ---


def remember(thing: Any, name: str, what: str) -> str:
    """The reference to an object. ``name``: one that nothing else of the setting ``what`` has."""
    name = re.sub(r"[^\w.-]+", "", name) or "object"
    try:
        reference = f"{PLACE}:{name}@{fingerprint(thing)}"
        dumped(thing)
    except Exception as error:
        raise InputError(
            f"--{what} {name} cannot be sent to the processes of a run: {error}. HINT: create what cannot be pickled "
            "inside the function, so that every process makes its own."
        ) from None
    _here[reference] = thing
    return reference


@contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """Objects that the block remembers are needed as long as it runs: a data set may be large."""
    before = set(_here)
    try:
        yield
    finally:
        for reference in _here.keys() - before:
            del _here[reference]


def pickled(settings: Mapping[str, Any]) -> bytes | None:
    """The objects of these settings, and where this session imports from; None if there are none."""
    found = references_in(settings)
    if not found:
        return None
    things = {reference: dumped(recall(reference, "objects")) for reference in found}
    return pickle.dumps({"path": sys.path, "objects": things})


# --- in the ranks ---


def take(path: Path) -> None:
    """The objects of a run, from its folder, if it has any."""
    if path.is_file():
        read = pickle.loads(path.read_bytes())
        sys.path += [place for place in read["path"] if place not in sys.path]
        _there.update(read["objects"])


def recall(reference: str, what: str) -> Any:
    """The object itself."""
    if reference in _here:
        return _here[reference]
    if reference in _there:
        return pickle.loads(_there[reference])
    raise InputError(
        f"--{what} {reference} is an object of a Python session, and only the call that was given it can start a run "
        "with it. HINT: repeat that call, or write the object into a file and give file.py:name."
    )
