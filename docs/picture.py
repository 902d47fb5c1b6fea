"""The README's picture: `python docs/picture.py RUN...` draws what `compare` prints as docs/compare.svg."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

from gradsync.record import read_run
from gradsync.report.ledger import by_strategy
from gradsync.report.summary import runs_table

runs = [read_run(Path(folder)) for folder in sys.argv[1:]]
console = Console(record=True, width=108, file=io.StringIO(), force_terminal=True, color_system="truecolor")
console.print("[bold]$ gradsync compare[/bold]\n")
console.print(runs_table(runs))
console.print()
console.print(by_strategy(runs))
console.save_svg(str(Path(__file__).with_name("compare.svg")), title="gradsync")
