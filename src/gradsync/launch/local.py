"""Processes on this machine, started and watched by torch's elastic agent: if one fails, all end."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from gradsync.config import RunConfig
from gradsync.launch.outcome import Outcome
from gradsync.launch.processes import (
    LOOPBACK,
    WORKER,
    end_sessions,
    handled_signals,
    rank_logs,
    ready_to_start,
)


def launch(config: RunConfig, folders: Sequence[Path], module: str = WORKER) -> Outcome:
    """Start the ranks for these runs and wait. If one fails, the agent ends the others."""
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher import LaunchConfig, elastic_launch

    folder = folders[0]  # a rank that goes on to the next run prints into that one's logs
    with ready_to_start(config):
        agent = elastic_launch(
            LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=config.processes,
                run_id=uuid.uuid4().hex,
                rdzv_backend="c10d",
                rdzv_endpoint=f"{LOOPBACK}:0",  # any free port: two runs at once do not meet
                local_addr=LOOPBACK,
                max_restarts=0,
                logs_specs=rank_logs(folder),
                signals_to_handle=handled_signals(),
            ),
            sys.executable,
        )
        try:
            agent("-m", module, *map(str, folders))
        except ChildFailedError as error:
            end_sessions(folder, config.processes)
            return Outcome(exit_codes={rank: failure.exitcode for rank, failure in error.failures.items()})
        except SignalException as stopped:
            return Outcome(signal=stopped.sigval.name)
    return Outcome()
