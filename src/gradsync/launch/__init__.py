"""From a config to a finished run folder: start the ranks, wait, write summary.json, whatever happens."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from gradsync.config import RunConfig
from gradsync.launch import local
from gradsync.launch.outcome import INTERRUPTED, Outcome, explain
from gradsync.record import Run, create_folder, rank_rows, write_json
from gradsync.summary import summarize

LAUNCHERS: dict[str, Callable[[RunConfig, Path], Outcome]] = {"local": local.launch}

Watch = Callable[[Path], AbstractContextManager[Any]]

__all__ = ["INTERRUPTED", "LAUNCHERS", "run"]


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
            outcome = LAUNCHERS["local"](resolved, folder)
    except KeyboardInterrupt:
        outcome = Outcome(signal="SIGINT")
    seconds = time.perf_counter() - begin
    ranks = rank_rows(folder, resolved.workers)
    error = explain(outcome, ranks, folder)
    summary = summarize(resolved, ranks, error, seconds)
    write_json(folder / "summary.json", summary)
    return Run(folder, config.to_dict(), summary)


def folder_name(config: RunConfig) -> str:
    model = re.sub(r"[^A-Za-z0-9]+", "-", config.model).strip("-")
    return f"{model}-{config.strategy}-{config.workers}w"
