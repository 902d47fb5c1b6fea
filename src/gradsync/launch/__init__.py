"""From a config to a finished run folder: start the ranks, wait, write summary.json, whatever happens."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from gradsync.config import RunConfig
from gradsync.errors import signal_name
from gradsync.launch import local
from gradsync.launch.outcome import INTERRUPTED, Outcome, explain
from gradsync.record import Run, create_folder, rank_rows, write_json
from gradsync.summary import summarize

Watch = Callable[[Path], AbstractContextManager[Any]]

__all__ = ["INTERRUPTED", "Watch", "run"]


def run(config: RunConfig, watch: Watch = nullcontext) -> Run:
    """One run. It fails in its record, not here: the caller looks at the status.

    ``watch`` is entered with the folder while the ranks are at work, to show how far they are.
    """
    resolved = config.resolved()
    assert resolved.workers
    folder = create_folder(Path(config.out), folder_name(resolved))
    write_json(folder / "config.json", config.to_dict())
    begin = time.perf_counter()
    try:
        with watch(folder):
            outcome = local.launch(resolved, folder)
    except KeyboardInterrupt as stop:
        outcome = Outcome(signal=signal_name(stop))
    except Exception as error:
        outcome = Outcome(failure=error)
    seconds = time.perf_counter() - begin
    with signals_held():
        ranks = rank_rows(folder, resolved.workers)
        summary = summarize(resolved, ranks, explain(outcome, ranks, folder), seconds)
        write_json(folder / "summary.json", summary)
    return Run(folder, config.to_dict(), summary)


@contextmanager
def signals_held() -> Iterator[None]:
    """A second Ctrl-C must not cost the record of the run: it arrives when the block has ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def folder_name(config: RunConfig) -> str:
    model = re.sub(r"[^A-Za-z0-9]+", "-", config.model).strip("-")
    return f"{model}-{config.strategy}-{config.workers}w"
