"""What a table of runs can show: one column per figure, by name."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradsync.config import RunConfig
from gradsync.errors import InputError, unknown
from gradsync.record import CONFIG_FILE, DamagedRecord, Run, rank_rows, settings
from gradsync.report.tables import NOTHING
from gradsync.study.place import place_of
from gradsync.summary import LAST, summarize

SAME_WORK = ("model", "norm", "data", "batch_size", "precision")  # runs that differ in these have no speed-up


@dataclass(frozen=True)
class Line:
    """A run, whatever became of it, with its figures so far."""

    run: Run
    figures: dict[str, Any]
    setting: dict[str, Any]


def line(run: Run) -> Line:
    figures = run.summary or figures_so_far(run)
    return Line(run, figures, {name: figures.get(name) for name in SAME_WORK})


def figures_so_far(run: Run) -> dict[str, Any]:
    """What an unfinished run has written, summed up."""
    try:
        config = settings(run.config, RunConfig).resolved()
    except InputError as error:
        raise DamagedRecord(run.folder, f"{CONFIG_FILE}: {error}") from None
    return summarize(config, rank_rows(run.folder, config.processes, stamps_until=LAST), None, 0.0)


Text = Callable[[Line, Sequence[Line]], str]


def strategy_name(figures: dict[str, Any]) -> str:
    """With the options it was given."""
    options = ", ".join(f"{name} {value}" for name, value in (figures.get("options") or {}).items())
    return f"{figures['strategy']} ({options})" if options else figures["strategy"]


def number(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)


def last(values: list[Any]) -> Any:
    return values[-1] if values else None


def seconds_text(figures: dict[str, Any]) -> str:
    mean, spread = figures["seconds_per_step"], figures["seconds_per_step_spread"]
    form = ".4f" if mean and mean < 0.1 else ".3f"
    return number(mean, form) + (f" ± {spread:{form}}" if spread is not None else "")


def speed_up(item: Line, lines: Sequence[Line]) -> float | None:
    """Seconds per step of the local run doing the same work on the same kind of place, over this run's."""
    here = lines.index(item)
    nearest = [*lines[here::-1], *lines[here:]]  # of several, the one just before: that of the same comparison
    base = next((other for other in nearest if is_base(other, item)), None)
    own = item.figures["seconds_per_step"]
    return base.figures["seconds_per_step"] / own if base and own else None


def is_base(base: Line, item: Line) -> bool:
    done = base.run.status == "completed" and base.figures["strategy"] == "local"
    same = base.setting == item.setting and place_of(base.figures) == place_of(item.figures)
    return done and same and bool(base.figures["seconds_per_step"])


def speed_up_text(item: Line, lines: Sequence[Line]) -> str:
    ratio = speed_up(item, lines)
    return NOTHING if ratio is None else f"{ratio:.2f}×"


def projected(figures: dict[str, Any]) -> bool:
    return not figures["epoch_seconds"] and bool(figures["seconds_per_step"] and figures["steps_per_epoch"])


def epoch_text(figures: dict[str, Any]) -> str:
    if projected(figures):
        return f"~{figures['seconds_per_step'] * figures['steps_per_epoch']:.1f}"
    seconds = figures["epoch_seconds"]
    return f"{statistics.fmean(seconds):.1f}" if seconds else NOTHING


def distinct_tests(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """The ranks' own test figures, where each has its own and they are not all the same.

    Where there are servers, the run's is that of their final parameters; report/workers.py has each worker's.
    """
    if figures.get("updates"):
        return []
    tests = [rank["test"] for rank in figures["ranks"] if rank["test"]]
    return tests if any(test != tests[0] for test in tests) else []


def test_text(figures: dict[str, Any], name: str, form: str) -> str:
    tests = distinct_tests(figures) or ([figures["test"]] if figures["test"] else [])
    return "\n".join(number(test[name], form) for test in tests) or NOTHING


def staleness_text(figures: dict[str, Any]) -> str:
    found = figures.get("staleness")
    return f"{found['mean']:.2f}" if found and found["mean"] is not None else NOTHING


def figure(name: str, form: str) -> Text:
    """A number of the summary as it is."""
    return lambda item, lines: number(item.figures.get(name), form)


# name -> heading, in two lines so that the default table fits into 80 columns, and what stands below it
COLUMNS: dict[str, tuple[str, Text]] = {
    "workers": ("work-\ners", lambda item, lines: str(item.figures["world_size"])),
    "servers": ("ser-\nvers", lambda item, lines: str(item.figures.get("server_count") or NOTHING)),
    "transport": ("trans-\nport", lambda item, lines: item.figures.get("transport") or NOTHING),
    "steps": ("steps", figure("steps", ",d")),
    "updates": ("up-\ndates", figure("updates", ",d")),
    "staleness": ("stale-\nness", lambda item, lines: staleness_text(item.figures)),
    "read": ("read\ns", figure("read_seconds", ".2f")),
    "step": ("s/step", lambda item, lines: seconds_text(item.figures)),
    "speed-up": ("speed-\nup", lambda item, lines: speed_up_text(item, lines)),
    "samples": ("samples\n/s", figure("samples_per_second", ",.0f")),
    "epoch": ("epoch\ns", lambda item, lines: epoch_text(item.figures)),
    "total": ("total\ns", figure("total_seconds", ".1f")),
    "train-loss": ("train\nloss", lambda item, lines: number(last(item.figures["train_loss"]), ".3f")),
    "test-loss": ("test\nloss", lambda item, lines: test_text(item.figures, "loss", ".3f")),
    "accuracy": ("accu-\nracy", lambda item, lines: test_text(item.figures, "accuracy", ".2%")),
}
DEFAULT = ("workers", "step", "speed-up", "samples", "epoch", "train-loss", "test-loss", "accuracy")


def choose(names: Sequence[str]) -> list[tuple[str, Text]]:
    for name in names:
        if name not in COLUMNS:
            raise unknown("column", name, COLUMNS)
    return [COLUMNS[name] for name in names or DEFAULT]
