"""Each worker of a run with parameter servers: when it finished, how stale its gradients were, what it reached."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.text import Text

from gradsync.report.columns import number, strategy_name
from gradsync.report.tables import plain_table
from gradsync.values import counted

NOTES = (
    "finished: last step, from the first step of any worker on; staleness: updates applied since the worker read "
    "its parameters, mean of its gradients; dropped: gradients not applied; epoch: accuracy of what it had then."
)
EPOCHS = 5  # accuracies of the last so many are shown
BAR = 40


def workers_view(figures: dict[str, Any]) -> Group | None:
    """None for a run without servers."""
    if not figures.get("updates"):
        return None
    workers = counted(figures["world_size"], "worker")
    title = f"{strategy_name(figures)}, {workers}: {figures['updates']:,} updates of the parameters"
    table = plain_table(title)
    epochs = sorted({item["epoch"] for rank in figures["ranks"] for item in rank["epochs"]})[-EPOCHS:]
    table.add_column("worker")
    for heading in ("finished\ns", "steps", "stale-\nness", "drop-\nped", *(f"epoch\n{epoch}" for epoch in epochs)):
        table.add_column(heading, justify="right")
    for rank in figures["ranks"]:
        accuracy = {item["epoch"]: item["accuracy"] for item in rank["epochs"]}
        table.add_row(
            str(rank["rank"]),
            number(rank["finish_seconds"], ".2f"),
            str(rank["steps"]),
            number(rank["staleness"], ".2f"),
            number(rank["dropped"], "d"),
            *(number(accuracy.get(epoch), ".2%") for epoch in epochs),
        )
    notes = NOTES if epochs else NOTES.rsplit("; ", 1)[0] + "."
    below = [histogram(figures["staleness"])] if has_stale_gradients(figures) else []
    return Group(table, Text(notes, style="italic"), *below)


def has_stale_gradients(figures: dict[str, Any]) -> bool:
    """Applied or dropped: where all workers wait for each other there are none."""
    staleness = figures.get("staleness") or {}
    return bool(staleness.get("max") or staleness.get("dropped"))


def histogram(staleness: dict[str, Any]) -> Text:
    counts = {int(value): count for value, count in staleness["histogram"].items()}
    most = max(counts.values(), default=1)
    text = Text("\n staleness\n")
    for value, count in counts.items():
        text.append(f" {value:>9} {'▇' * max(1, round(count / most * BAR))} {count:,}\n")
    if staleness["dropped"]:
        text.append(f"   dropped {staleness['dropped']:,}\n")
    return text
