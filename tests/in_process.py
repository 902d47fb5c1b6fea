"""The command line within the process of the tests, where torch has been imported already: that takes 2 s each time.

The ranks that a command starts are processes of their own, as always.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO
from unittest.mock import patch

from gradsync.cli.main import main


def gradsync(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """As if it had been started in this folder, with these environment variables besides those of the tests."""
    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
        with (
            patch.dict(os.environ, environment),
            patch.object(sys, "argv", ["gradsync", *words]),
            patch.object(sys, "path", [*sys.path]),
            working_in(folder),
            printing_into("stdout", 1, out),
            printing_into("stderr", 2, err),
        ):
            try:
                main()
            except SystemExit as end:
                code = end.code
        printed = []
        for file in (out, err):
            file.seek(0)
            printed.append(file.read())
    assert isinstance(code, int)
    return subprocess.CompletedProcess(["gradsync", *words], code, *printed)


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    before, modules = Path.cwd(), set(sys.modules)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        for name in set(sys.modules) - modules:  # the next test may have another module of that name
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


@contextmanager
def printing_into(name: str, descriptor: int, file: IO[str]) -> Iterator[None]:
    """Also what processes print that inherit the descriptor."""
    kept = os.dup(descriptor)
    os.dup2(file.fileno(), descriptor)
    try:
        with patch.object(sys, name, file):
            yield
    finally:
        file.flush()
        os.dup2(kept, descriptor)
        os.close(kept)
