"""The commands about scripts that are not ours, as they are typed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from gradsync.cli.flags import ONE_WORD


@dataclass(kw_only=True)
class Watch:
    """Record the training of any script: gradsync watch -- torchrun train.py ..."""

    words: Positional[tuple[str, ...]] = ()
    """The command and its arguments, after --."""

    out: Path = Path("runs")
    """Folder in which the run gets its own."""

    name: str | None = None
    """Name of the run's folder. Default: date, time and script."""

    join: Path | None = None
    """Record into this folder together with the same command on other nodes that share it; the last to end finishes
    the run."""

    log_to: Annotated[tuple[str, ...], ONE_WORD] = ()
    """Also log the run to tensorboard, mlflow or wandb while it goes on, or to several; or to your own as
    file.py:Class."""

    details: FlagCreatePairsOff[bool] = False
    """Also print details rank by rank, such as bytes against the closed form, and host metrics."""

    json: FlagCreatePairsOff[bool] = False
    """Print the summary as JSON, as one last line on stdout, instead of the tables."""


@dataclass(kw_only=True)
class Merge:
    """Make one run of folders that have different ranks of it."""

    folders: Positional[tuple[Path, ...]]
    """The folders that gradsync watch has made, copied to one host."""

    out: Annotated[Path | None, arg(aliases=["-o"])] = None
    """Folder of the merged run. Default: the first folder's name with -merged."""

    json: FlagCreatePairsOff[bool] = False
    """Print the summary as JSON."""
