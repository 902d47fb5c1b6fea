"""torchrun on one host of a run: ``python -m gradsync.launch.agent``, with torchrun's own options and program.

It differs from plain torchrun in two points:

1. On the first host, its store listens only at the rendezvous address, not on every interface.
   torchrun's static rendezvous, which unpickles nothing, then finds that store at its port and uses it.
2. The folder torchrun makes for its logs is removed when it ends.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Sequence

from gradsync.parent import end_with_parent
from gradsync.rank.store import bound_store
from gradsync.rank.world import meeting_address


def main(argv: Sequence[str] = tuple(sys.argv[1:])) -> None:
    end_with_parent(signal.SIGTERM)
    from torch.distributed import run

    asked = run.parse_args(list(argv))
    store = None
    if asked.node_rank == 0 and (address := meeting_address(asked.master_addr)):
        store = bound_store(address, asked.master_port, shared=True)
    with tempfile.TemporaryDirectory(prefix="gradsync-torchrun-") as logs:
        run.main([f"--log-dir={logs}", *argv])
    del store


if __name__ == "__main__":
    main()
