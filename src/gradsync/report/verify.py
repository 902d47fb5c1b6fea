"""The equivalence certificate as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from gradsync.report.tables import NOTHING, plain_table
from gradsync.study.verify import Finding, VerifyConfig

STYLE = {"exact": "green", "equal to rounding": "green", "wrong": "bold red", "failed": "bold red"}
YES = {True: "yes", False: "no", None: NOTHING}


def findings_table(findings: Sequence[Finding], config: VerifyConfig) -> Table:
    length = f"{config.steps} steps" if config.steps else f"{config.epochs} epochs"
    work = f"{config.model}, {length} of {config.batch_size} samples in {config.precision}"
    table = plain_table(f"{work}, against one process")
    table.add_column("strategy", overflow="fold")
    with_servers = any(item.servers for item in findings)
    transports = len({item.transport for item in findings if item.transport}) > 1
    table.add_column("work-\ners", justify="right")
    if with_servers:
        table.add_column("ser-\nvers", justify="right")
    if transports:
        table.add_column("trans-\nport")
    table.add_column("largest\ndistance", justify="right")
    table.add_column("same bits on\nall ranks")
    table.add_column("verdict")
    table.add_column("what differs, and why", overflow="fold")
    for item in findings:
        table.add_row(
            item.strategy,
            str(item.workers),
            *([str(item.servers or NOTHING)] if with_servers else []),
            *([item.transport or NOTHING] if transports else []),
            NOTHING if item.distance is None else f"{item.distance:.1e}" if item.distance else "0",
            YES[item.same_bits],
            item.verdict,
            item.differs,
            style=STYLE.get(item.verdict, ""),
        )
    return table


def conclusion(findings: Sequence[Finding]) -> str:
    """One sentence."""
    bad = [item for item in findings if item.verdict in ("wrong", "failed")]
    if bad:
        transports = {item.transport for item in findings if item.transport}
        names = ", ".join(
            f"{item.strategy} on {item.workers}" + (f" over {item.transport}" if len(transports) > 1 else "")
            for item in bad
        )
        return f"{len(bad)} of {len(findings)} do not compute the model of one process: {names}."
    by_design = sum(item.verdict == "approximate by design" for item in findings)
    rest = f"; {by_design} are approximate by design, which is no pass" if by_design else ""
    return f"{len(findings) - by_design} of {len(findings)} compute the model of one process{rest}."
