"""Downloads through pooch, hashes checked, with a progress bar."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pooch
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gradsync.data.files import Download, FileSet, Source
from gradsync.errors import InputError

TIMEOUT_SECONDS = 30


class DownloadBar:
    """The progress bar that pooch expects, drawn by rich."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)
        self.total = 0

    def update(self, count: int) -> None:
        self._progress.update(self._task, advance=count, total=self.total or None)

    def reset(self) -> None:
        self._progress.reset(self._task)

    def close(self) -> None:
        pass


def fetch(files: FileSet, folder: Path, console: Console, mirror: str | None = None) -> Source:
    """Put a data set under ``folder`` and check it. Nothing is downloaded if it is already there and correct."""
    if files.locate(folder):
        files.read(folder)
        return files.source(folder)
    target = folder / files.name
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), DownloadColumn()]
    with Progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=console) as progress:
        for download in files.downloads:
            retrieve(download, target, DownloadBar(progress, download.file), mirror)
    files.read(folder)
    return files.source(folder)


def retrieve(download: Download, target: Path, bar: DownloadBar, mirror: str | None) -> None:
    urls = (f"{mirror.rstrip('/')}/{download.file}",) if mirror else download.urls
    pooch.get_logger().setLevel(logging.ERROR)
    failures = []
    for url in urls:
        try:
            pooch.retrieve(
                url,
                known_hash=f"md5:{download.md5}",
                fname=download.file,
                path=target,
                downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT_SECONDS),
            )
            return
        except Exception as error:
            # requests, urllib3 and pooch each raise their own; the user needs to know which address and why.
            failures.append(f"  {url}: {error}")
    raise InputError(
        f"could not download {download.file}:\n" + "\n".join(failures) + "\n"
        f"Check the connection, give another address with --mirror URL, or put the file into {target} yourself."
    )
