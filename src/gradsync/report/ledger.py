"""Where the time and the bytes went, as tables with bars: per strategy, or per rank of one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from gradsync.meter.ledger import HIDDEN, PARTS
from gradsync.meter.stragglers import recorded
from gradsync.record import Run
from gradsync.report.columns import line, strategy_name
from gradsync.report.tables import NOTHING, plain_table
from gradsync.values import counted

SMALLEST_SHOWN = 500  # bytes, a step
BAR = 60  # characters for the longest

# A letter for pipes, a colour for terminals. Colours that stay apart for colour-blind readers (Okabe and Ito).
LOOK = {
    "data": ("d", "#E69F00"),
    "copy": ("c", "#F0E442"),
    "forward": ("f", "#56B4E9"),
    "backward": ("b", "#0072B2"),
    "wait": ("-", "#D55E00"),
    "wire": ("~", "#CC79A7"),
    "optimizer": ("o", "#009E73"),
    "other": (".", "#999999"),
}

HEADINGS = {"forward": "for-\nward", "backward": "back-\nward", "optimizer": "opti-\nmizer"}

Named = tuple[str, dict[str, Any]]


def table_of_figures(title: str, heading: str, columns: Iterable[str], caption: str) -> Table:
    """The first column is for names. Narrow enough for 80 columns."""
    table = plain_table(title, caption, padding=(0, 0, 0, 1))
    table.add_column(heading, overflow="fold")
    for name in columns:
        table.add_column(name, justify="right")
    return table


def time_table(items: Sequence[Named], title: str) -> Group:
    """One line of milliseconds and one bar for each; ``items``: name and what holds its ledger, in seconds."""
    caption = "wait: for the last rank to arrive; wire: from then on; hidden: communication behind computing."
    columns = [*(HEADINGS.get(name, name) for name in PARTS), "= step", "hid-\nden"]
    table = table_of_figures(title, "", columns, caption)
    ledgers = [(name, figures["ledger"]) for name, figures in items]
    for name, figures in items:
        parts = [figures["ledger"][part] for part in PARTS]
        table.add_row(name, *map(milliseconds, [*parts, sum(parts), figures[HIDDEN]]))
    return Group(table, Text(), bars(ledgers), legend())


def milliseconds(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def bars(items: Sequence[Named]) -> Text:
    drawn = [[max(0.0, ledger[part]) for part in PARTS] for _, ledger in items]  # rounding may leave one below 0
    longest = max(map(sum, drawn)) or 1.0
    width = max(len(name) for name, _ in items)
    text = Text()
    for (name, _), parts in zip(items, drawn, strict=True):
        text.append(f" {name:<{width}} ")
        for part, count in zip(PARTS, cells([seconds / longest * BAR for seconds in parts]), strict=True):
            letter, colour = LOOK[part]
            text.append(letter * count, style=f"{colour} reverse")
        text.append("\n")
    return text


def cells(lengths: Sequence[float]) -> list[int]:
    """Whole cells for each part; rounding is carried along, so that the bar as a whole has the right length."""
    counts, end, drawn = [], 0.0, 0
    for length in lengths:
        end += length
        counts.append(max(0, round(end) - drawn))
        drawn += counts[-1]
    return counts


def legend() -> Text:
    text = Text(" ")
    for part in PARTS:
        letter, colour = LOOK[part]
        text.append(letter, style=f"{colour} reverse")
        text.append(f" {part}  ")
    return text


KINDS = {"gradients": "gradi-\nents", "parameters": "para-\nmeters", "buffers": "buf-\nfers", "control": "con-\ntrol"}


def host_table(items: Sequence[Named], heading: str = "") -> Table:
    """Bytes per step and the host's share; ``items``: name and a rank of summary.json, with its number of steps."""
    has_gpu = any("gpu_peak_memory_bytes" in rank for _, rank in items)
    kinds = [
        kind
        for kind in KINDS
        if any(payload_kinds(rank).get(kind, 0) >= SMALLEST_SHOWN * rank["steps"] > 0 for _, rank in items)
    ]
    table = table_of_figures(
        "MB a step, and the host",
        heading,
        [KINDS[kind] for kind in kinds]
        + ["sent", "re-\nceived", "closed\nform", "over-\nhead", "CPU", "no free\ncore", "peak\nmemory"]
        + (["GPU", "GPU\nmemory"] if has_gpu else []),
        f"{payload_note(kinds, items)}; sent, received: counted by the kernel ({sources(items)}){per_push(items)}; "
        "closed form: of sent; CPU: 100 % is one core; no free core: ready but not running.",
    )
    for name, rank in items:
        network = rank["network"] or {}
        steps = network.get("steps", 0)
        closed_form = network.get("closed_form") or {}
        table.add_row(
            name,
            *(megabytes(payload_kinds(rank).get(kind), rank["steps"]) for kind in kinds),
            megabytes(network.get("sent_bytes"), steps),
            megabytes(network.get("received_bytes"), steps),
            megabytes(closed_form.get("sent_bytes"), steps),
            percent(network.get("overhead_percent"), "+.1f"),
            percent(rank["cpu_percent"]),
            percent(rank["run_delay_percent"]),
            memory(rank["peak_memory_bytes"]),
            *([percent(rank.get("gpu_utilization")), memory(rank.get("gpu_peak_memory_bytes"))] if has_gpu else []),
        )
    return table


def payload_kinds(rank: dict[str, Any], when: str = "kinds") -> dict[str, int]:
    """Bytes of payload by kind, handed in or taken out by this rank, whichever is more."""
    found = (rank["payload"] or {}).get(when) or {}
    return {kind: max(both["sent_bytes"], both["received_bytes"]) for kind, both in found.items()}


def per_push(items: Sequence[Named]) -> str:
    return ", a server's per gradient it got" if any(rank.get("role") == "server" for _, rank in items) else ""


def payload_note(kinds: Sequence[str], items: Sequence[Named]) -> str:
    """What the columns of payload are, and what had to travel once, of the first rank that has something."""
    found = next((setup for _, rank in items if (setup := payload_kinds(rank, "setup"))), {})
    parts = [f"{kind} {megabytes(count, 1)} MB" for kind, count in found.items() if count >= SMALLEST_SHOWN]
    once = f" (before the first step: {', '.join(parts)})" if parts else ""
    return (f"{', '.join(kinds)}: payload of messages" if kinds else "no messages") + once


def sources(items: Sequence[Named]) -> str:
    found = {network["source"] for _, rank in items if (network := rank["network"])}
    return "; ".join(sorted(found)) or "not counted here"


def megabytes(count: float | None, steps: int) -> str:
    if count is None or not steps:
        return NOTHING
    value = count / steps / 1e6
    return f"{value:.3f}" if value < 10 else f"{value:,.1f}"


def memory(count: float | None) -> str:
    return NOTHING if count is None else f"{count / 1e6:,.0f} MB"


def percent(value: float | None, form: str = ".0f") -> str:
    return NOTHING if value is None else f"{value:{form}} %"


def measured(run: Run) -> dict[str, Any] | None:
    """The figures of a run that has a ledger, whatever became of it."""
    figures = line(run).figures
    return figures if figures.get("ledger") else None


def by_strategy(runs: Sequence[Run]) -> Group | None:
    """Time as the mean over the ranks of each run; bytes of every node, or on one machine of ranks 0 and 1, as rank 0
    may have a part of its own.

    A single run is shown rank by rank instead.
    """
    if len(runs) == 1:
        figures = measured(runs[0])
        return by_rank(figures) if figures else None
    found = [figures for run in runs if (figures := measured(run))]
    if not found:
        return None
    named = [(name_of(figures, found), figures) for figures in found]
    title = "Where the time of a step went, in ms (mean of steps 2 to 40 and of all ranks)"
    time = time_table(named, title)
    on_nodes = any(figures.get("nodes", 1) > 1 for figures in found)
    host = host_table(
        [
            (f"{name} · {place(rank, figures) if on_nodes else rank['rank']}", rank)
            for name, figures in named
            for rank in (figures["ranks"] if on_nodes else figures["ranks"][:2])
        ],
        f"strategy · {'node' if on_nodes else 'rank'}",
    )
    return Group(time, Text(), host, *(note(figures) for figures in found if figures["straggler"]))


def place(rank: dict[str, Any], figures: dict[str, Any]) -> str:
    """The node, with the rank where several share it."""
    shared = sum(other["node"] == rank["node"] for other in figures["ranks"]) > 1
    return f"{rank['node']} · {rank['rank']}" if shared else rank["node"]


def name_of(figures: dict[str, Any], all_figures: Sequence[dict[str, Any]]) -> str:
    """The strategy, with its workers where the same one appears twice."""
    same = [item for item in all_figures if item["strategy"] == figures["strategy"]]
    name = strategy_name(figures)
    return name if len(same) == 1 else f"{name} × {figures['world_size']}"


def by_rank(figures: dict[str, Any]) -> Group:
    """The ranks of one run that was measured."""
    workers = counted(figures["world_size"], "worker")
    title = f"{figures['strategy']}, {workers}: where the time of a step went, in ms (mean of steps 2 to 40)"
    ranks = [(f"rank {rank['rank']}", rank) for rank in figures["ranks"]]
    servers = [(f"server {server['rank']}", server) for server in figures.get("servers") or []]
    notes = [note(figures)] if figures["straggler"] else []
    return Group(time_table(ranks, title), Text(), host_table(ranks + servers), *notes)


def note(figures: dict[str, Any]) -> Text:
    return Text(f"\n{figures['strategy']}: {recorded(figures['straggler'])}.")
