"""The end of an ordinary script in two processes, which neither detaches nor uses ``with``."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "support" / "scripts" / "out_of_batches.py"
WAYS = {
    "a group of its own": [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
    "mpiexec": [str(Path(sys.executable).with_name("mpiexec")), "-n", "2", sys.executable],
}
HAS_MPI = importlib.util.find_spec("mpi4py") is not None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("way", WAYS)
def test_ranks_with_different_numbers_of_batches_end_together(way: str, tmp_path: Path):
    if way == "mpiexec" and not HAS_MPI:
        pytest.skip("needs mpi4py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [*WAYS[way], str(SCRIPT), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=50, env=environment)
    assert done.returncode == 0, done.stderr
    found = [path.read_text() for path in tmp_path.iterdir()]
    assert len(found) == 2 and len(set(found)) == 1
