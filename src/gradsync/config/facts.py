"""What is known about a synchronization strategy before a process starts: plain values, read from its class."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """A strategy as the command line, the launchers and the studies see it. ``strategies.facts_of`` makes these."""

    exact: bool = True
    """Whether N workers compute the model that one worker computes from the same batches."""

    has_servers: bool = False
    """Whether there are parameter servers in addition to the workers."""

    in_one_process: bool = False
    """Whether all workers live in one process, as with ``local`` and ``data-parallel``."""

    asynchronous: bool = False
    """Whether every gradient is an update of its own, so that the workers finish at different times."""

    over_mpi: bool = True
    """Whether its messages can go over MPI. They go over Gloo with every strategy."""

    spare_workers: int = 0
    """How many workers may be lost without ending the run."""

    option_names: tuple[str, ...] = ()
    """The options it takes, as they are typed: ``bucket-mb``."""
