"""Watching the process we are in: because the command says so, or the script's own line ``gradsync.watch()``."""

from __future__ import annotations

import os
from pathlib import Path

from gradsync.observe.entrance import FOLDER
from gradsync.observe.hooks import Hooks
from gradsync.observe.watcher import Watcher

_watchers: list[Watcher] = []


def watch_by_environment() -> None:
    """The command has made the folder, and writes the summary."""
    start(Watcher(lambda _: Path(os.environ[FOLDER])))


def start(watcher: Watcher) -> None:
    _watchers.append(watcher)
    Hooks(watcher).install()
