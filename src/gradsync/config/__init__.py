"""What to run, complete and re-runnable: what is trained (training), where (placement), by how many and how (run)."""

from gradsync.config.injection import Injection, parse_injection
from gradsync.config.placement import Launcher, Placement, Shape
from gradsync.config.run import (
    LARGE_BATCH,
    LEARNING_RATE,
    ONE_PROCESS,
    WITH_SERVERS,
    RunConfig,
    Settings,
    Transport,
    as_text,
    check_split,
    load,
    read_file,
    read_values,
    settings_in,
)
from gradsync.config.training import ALTERNATIVES, Buffers

__all__ = [
    "ALTERNATIVES",
    "LARGE_BATCH",
    "LEARNING_RATE",
    "ONE_PROCESS",
    "WITH_SERVERS",
    "Buffers",
    "Injection",
    "Launcher",
    "Placement",
    "RunConfig",
    "Settings",
    "Shape",
    "Transport",
    "as_text",
    "check_split",
    "load",
    "parse_injection",
    "read_file",
    "read_values",
    "settings_in",
]
