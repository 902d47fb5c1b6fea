"""What to run: what is trained (training), where (placement), by how many workers and with which strategy (run), and
every setting worked out (resolved)."""

from gradsync.config.facts import Facts
from gradsync.config.injection import Injection, parse_injection
from gradsync.config.placement import Launcher, Placement, Shape
from gradsync.config.resolved import (
    LARGE_BATCH,
    LEARNING_RATE,
    Resolved,
    resolve,
    strategy_name,
    suited,
    worker_count,
)
from gradsync.config.run import (
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
    "Buffers",
    "Facts",
    "Injection",
    "Launcher",
    "Placement",
    "Resolved",
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
    "resolve",
    "settings_in",
    "strategy_name",
    "suited",
    "worker_count",
]
