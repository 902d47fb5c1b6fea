"""The README's picture: `python docs/picture.py RUN...` draws the table of runs as docs/compare.svg."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

from gradsync.record import read_run
from gradsync.report.summary import runs_table

console = Console(record=True, width=108, file=io.StringIO())
console.print("[bold]$ gradsync compare[/bold]\n")
console.print(runs_table([read_run(Path(folder)) for folder in sys.argv[1:]]))
console.save_svg(str(Path(__file__).with_name("compare.svg")), title="gradsync")
