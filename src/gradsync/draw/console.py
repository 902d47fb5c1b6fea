"""Where output goes: tables and progress on stdout, or on stderr when stdout is for JSON."""

from __future__ import annotations

import shutil
import sys
from typing import IO

from rich.console import Console

from gradsync.draw.terminal.words import wrapped

PIPE_WIDTH = 160  # rich takes 80 columns where there is no terminal, which breaks tables


def make_console(json: bool) -> Console:
    stream = sys.stderr if json else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    return Console(
        file=stream,
        width=None if stream.isatty() else PIPE_WIDTH,
        soft_wrap=False,
        highlight=False,
        markup=False,  # names and sentences are printed as they are: a bracket in a model's name is a bracket
        emoji=False,
    )


def say(text: str, file: IO[str]) -> None:
    """Print sentences: on a terminal in lines of its width, in a pipe a line each. Code, which is indented, stays."""
    width = shutil.get_terminal_size().columns if file.isatty() else 0
    for line in text.splitlines():
        lines = wrapped(line, width) if width and line and not line.startswith(" ") else [line]
        print(*lines, sep="\n", file=file)
    file.flush()
