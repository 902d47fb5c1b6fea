"""Where output goes: tables and progress on stdout, or on stderr when stdout is for JSON."""

from __future__ import annotations

import sys

from rich.console import Console

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
        markup=False,  # what is printed are names and sentences: a bracket in a model's name is a bracket
        emoji=False,
    )
