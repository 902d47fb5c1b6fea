"""A user's loop in several processes: every rank writes what each strategy came to, in JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gradsync.strategies import STRATEGIES

SCRIPTS = Path(__file__).parent / "scripts"
AGREEING = [
    name for name, kind in STRATEGIES.items() if name != "none" and not (kind.has_servers or kind.in_one_process)
]
"""The strategies that a script can attach in several processes and that make them agree."""

Found = dict[str, Any]


def found_by_ranks(script: str, folder: Path, workers: int) -> list[Found]:
    """One start of a script for all strategies."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(workers)]
    command += [str(SCRIPTS / script), str(folder), *AGREEING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(workers)]
