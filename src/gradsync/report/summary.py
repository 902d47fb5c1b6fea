"""Run folders as one table, and failed runs as sentences."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, fields
from typing import Any

from rich.markup import escape
from rich.table import Table

from gradsync.config import RunConfig
from gradsync.record import Run, rank_rows
from gradsync.report.tables import NOTHING, plain_table
from gradsync.summary import LAST, summarize

SAME_WORK = ("model", "norm", "data", "batch_size", "precision")  # runs that differ in these have no speed-up


# Two lines each: the whole table fits into 80 columns.
FIGURES = (
    "work-\ners",
    "s/step",
    "speed-\nup",
    "samples\n/s",
    "epoch\ns",
    "train\nloss",
    "test\nloss",
    "accu-\nracy",
)


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
    """What an unfinished run has written, summed up. Settings this version does not know are left aside."""
    known = {item.name for item in fields(RunConfig)}
    config = RunConfig(**{name: value for name, value in run.config.items() if name in known}).resolved()
    return summarize(config, rank_rows(run.folder, config.processes, stamps_until=LAST), None, 0.0)


def runs_table(runs: list[Run], width: int = 160) -> Table:
    """One row per run. What all runs share stands above the table, what differs in columns of its own."""
    lines = [line(run) for run in runs]
    settings = [{**item.setting, "steps": item.figures["steps"]} for item in lines]
    shared = {name: value for name, value in settings[0].items() if all(other[name] == value for other in settings)}
    differing = [name for name in settings[0] if name not in shared]
    all_completed = all(item.run.status == "completed" for item in lines)

    table = plain_table(title(shared), caption(lines), padding=(0, 1 if width > 100 else 0))
    for name in ["strategy", *differing, *([] if all_completed else ["status"])]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for name in FIGURES:
        table.add_column(name, justify="right", overflow="fold")

    for item, setting in zip(lines, settings, strict=True):
        table.add_row(
            escape(item.figures["strategy"]),
            *(escape(str(setting[name])) for name in differing),
            *([] if all_completed else [item.run.status]),
            str(item.figures["world_size"]),
            seconds_text(item.figures),
            speed_up_text(item, lines),
            number(item.figures["samples_per_second"], ",.0f"),
            epoch_text(item.figures),
            number(last(item.figures["train_loss"]), ".3f"),
            *test_texts(item.figures),
        )
    return table


def title(shared: dict[str, Any]) -> str:
    forms = {
        "model": "{}",
        "data": "on {}",
        "batch_size": "· global batch {}",
        "steps": "· {} steps",
        "precision": "· {}",
    }
    parts = [form.format(shared[name]) for name, form in forms.items() if shared.get(name) is not None]
    return " ".join([*parts, *(["· without norm"] if shared.get("norm") == "none" else [])])


def caption(lines: list[Line]) -> str:
    """The footnotes the figures in the table need."""
    notes = ["s/step: mean ± standard deviation of steps 2 to 40"]
    if any(projected(item.figures) for item in lines):
        notes.append("~ projected from s/step, as the run ended before the epoch did")
    if any(distinct_tests(item.figures) for item in lines):
        notes.append("several values: one per rank, from rank 0 on, as their BatchNorm statistics differ")
    return "; ".join(notes) + "."


def number(value: float | None, form: str) -> str:
    return NOTHING if value is None else format(value, form)


def last(values: list[Any]) -> Any:
    return values[-1] if values else None


def seconds_text(figures: dict[str, Any]) -> str:
    mean, spread = figures["seconds_per_step"], figures["seconds_per_step_spread"]
    form = ".4f" if mean and mean < 0.1 else ".3f"
    return number(mean, form) + (f" ± {spread:{form}}" if spread is not None else "")


def speed_up(item: Line, lines: list[Line]) -> float | None:
    """Seconds per step of the local run doing the same work, over this run's."""
    here = lines.index(item)
    before, after = lines[here::-1], lines[here:]  # of several, the one just before: that of the same comparison
    base = next((other for other in before + after if is_base(other, item)), None)
    own = item.figures["seconds_per_step"]
    return base.figures["seconds_per_step"] / own if base and own else None


def is_base(base: Line, item: Line) -> bool:
    done = base.run.status == "completed" and base.figures["strategy"] == "local"
    same = base.setting == item.setting and base.figures["device"] == item.figures["device"]
    return done and same and bool(base.figures["seconds_per_step"])


def speed_up_text(item: Line, lines: list[Line]) -> str:
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
    """The ranks' own test figures, where each has its own and they are not all the same."""
    tests = [rank["test"] for rank in figures["ranks"] if rank["test"]]
    return tests if any(test != tests[0] for test in tests) else []


def test_texts(figures: dict[str, Any]) -> tuple[str, str]:
    tests = distinct_tests(figures) or ([figures["test"]] if figures["test"] else [])
    if not tests:
        return NOTHING, NOTHING
    losses = "\n".join(number(test["loss"], ".3f") for test in tests)
    return losses, "\n".join(f"{test['accuracy']:.2%}" for test in tests)


def failure_text(run: Run) -> str:
    """What went wrong, where, and the last words of the rank it happened on."""
    if run.status == "unfinished":
        return f"{run.folder}: unfinished: it is still running, or was killed before it could write its summary."
    assert run.summary
    error = run.summary["error"]
    where = f" on rank {error['rank']}" if error["rank"] is not None else ""
    text = f"{run.folder}: failed{where}: {error['type']}: {error['message']}"
    detail = error["traceback"].rstrip() or "\n".join(error["log"])
    return text + (f"\n{detail}" if detail and detail not in text else "")
