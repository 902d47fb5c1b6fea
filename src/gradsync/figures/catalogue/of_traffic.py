"""Figures of bytes: what the kernel counted, what a strategy handed to collectives, and the bandwidth used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from gradsync.figures.catalogue.of_time import COMMUNICATION
from gradsync.figures.consistency import link_bytes_per_second
from gradsync.figures.figure import At, Figure, Formula
from gradsync.ledger.cost import link_share
from gradsync.ledger.rates import rates
from gradsync.record import RankSummary, RunSummary, rank_file, read_rank
from gradsync.record.summaries import Network

COUNTED = 0.01  # of the bytes: headers, acknowledgements, and the moment at which the counter was read

Direction = Literal["sent_bytes", "received_bytes"]


def bytes_of(network: Network, direction: Direction) -> float:
    return network.sent_bytes if direction == "sent_bytes" else network.received_bytes


def total(values: Iterable[float | None]) -> float | None:
    """None if any of them is unknown."""
    found = list(values)
    return None if not found or None in found else sum(value for value in found if value is not None)


def networks(at: At) -> list[Network]:
    """Of one rank, or of all if none is named; empty where bytes were not counted."""
    ranks = [at.of_rank] if at.rank is not None else at.figures.ranks
    found = [rank.network for rank in ranks if rank.network and rank.network.steps]
    return found if len(found) == len(ranks) else []


def traffic(direction: Direction, per: Literal["run", "step", "epoch"]) -> Formula:
    """Bytes of one rank, or of all together if none is named."""

    def of(at: At) -> float | None:
        counted = networks(at)
        if not counted:
            return None
        if per == "run":
            return sum(bytes_of(network, direction) for network in counted)
        each = sum(bytes_of(network, direction) / network.steps for network in counted)
        return each if per == "step" else each * (at.figures.steps_per_epoch or 0)

    return of


def sent_per_worker(at: At) -> float | None:
    """Bytes sent by workers and servers in the whole run, per worker; a single worker sends nothing."""
    figures = at.figures
    if figures.world_size == 1 and not figures.server_count:
        return 0.0
    found = total(rank.network.sent_bytes if rank.network else None for rank in (*figures.ranks, *figures.servers))
    return None if found is None else found / figures.world_size


def closed_form(at: At) -> float | None:
    """Bytes sent in a step according to the strategy's formula."""
    found = [(network.closed_form, network.steps) for network in networks(at)]
    return total(None if form is None else form.sent_bytes / steps for form, steps in found)


def overhead(at: At) -> float | None:
    """Counted bytes beyond the closed form, both directions."""
    found = networks(at)
    expected = total(
        None if (form := network.closed_form) is None else form.sent_bytes + form.received_bytes for network in found
    )
    counted = sum(network.sent_bytes + network.received_bytes for network in found)
    return counted / expected - 1 if expected else None


@cache
def top_rate(folder: Path, rank: int, name: str) -> float | None:
    """The highest rate, averaged over a step at least: a step computes and then sends in a burst."""
    record = read_rank(rank_file(folder, rank), stamps_until=0)
    return max((growth for _, growth in rates(record.hosts, record.steps, name)), default=None)


def payload(kind: str, when: Literal["kinds", "setup"]) -> Formula:
    """Bytes of a kind handed to collectives or taken from them, whichever is more: in a step, or before the first."""

    def of(at: At) -> float | None:
        rank = at.of_rank
        if not rank.payload:
            return 0.0 if len(at.figures.ranks) == 1 else None
        steps = rank.steps if when == "kinds" else 1
        return payload_bytes(rank, when).get(kind, 0.0) / steps if steps else None

    return of


def payload_bytes(rank: RankSummary, when: Literal["kinds", "setup"] = "kinds") -> dict[str, float]:
    """By kind."""
    if not rank.payload:
        return {}
    found = rank.payload.kinds if when == "kinds" else rank.payload.setup
    return {kind: max(both.sent_bytes, both.received_bytes) for kind, both in found.items()}


def gradient_bytes(figures: RunSummary) -> float:
    """As recorded; in an older record they are not, and all parameters count as trained, in full precision."""
    if figures.gradient_bytes is not None:
        return figures.gradient_bytes
    return (figures.parameters or 0) * (8 if figures.precision == "fp64" else 4)


def by_formula(figures: RunSummary) -> float:
    """The least bytes that pass each link in a step, if all gradients are all-reduced."""
    return link_share("all-reduce", figures.world_size) * gradient_bytes(figures)


def formula_of_epoch(at: At) -> float | None:
    steps = at.figures.steps_per_epoch
    return by_formula(at.figures) * steps if steps else None


def sent_by_a_rank(at: At) -> float | None:
    whole = traffic("sent_bytes", "epoch")(at)
    return whole / len(networks(at)) if whole is not None else None


def bandwidth(at: At) -> float | None:
    """Bus bandwidth of an all-reduce of all gradients over the time of communication in a step, hidden or not."""
    figures = at.figures
    if not figures.ledger or not by_formula(figures):
        return None
    busy = sum(figures.ledger[part] for part in COMMUNICATION) + (figures.hidden_comm or 0.0)
    return by_formula(figures) / busy if busy else None


def share_of_link(at: At) -> float | None:
    used, most = bandwidth(at), link_bytes_per_second(at.figures)
    return used / most if used is not None and most else None


def counters(ranks: Sequence[RankSummary]) -> str:
    """The counters that the bytes come from."""
    found = {rank.network.source for rank in ranks if rank.network}
    return "; ".join(sorted(filter(None, found)))


SENT = Figure(
    "sent", "sent", traffic("sent_bytes", "run"), "in the whole run, as counted by the kernel", "MB", of_run=True
)
RECEIVED = Figure(
    "received",
    "received",
    traffic("received_bytes", "run"),
    "in the whole run, as counted by the kernel",
    "MB",
    of_run=True,
)
SENT_STEP = Figure(
    "sent-step",
    "sent",
    traffic("sent_bytes", "step"),
    "in a step, as counted by the kernel",
    "MB",
    compared="absolute",
    noise=COUNTED,
    in_full="sent in a step",
)
RECEIVED_STEP = Figure(
    "received-step",
    "received",
    traffic("received_bytes", "step"),
    "in a step, as counted by the kernel",
    "MB",
    compared="absolute",
    noise=COUNTED,
    in_full="received in a step",
)
SENT_EPOCH = Figure(
    "sent-epoch",
    "sent in an epoch",
    traffic("sent_bytes", "epoch"),
    "as counted by the kernel",
    "MB",
    compared="absolute",
    noise=COUNTED,
)
RECEIVED_EPOCH = Figure(
    "received-epoch",
    "received in an epoch",
    traffic("received_bytes", "epoch"),
    "as counted by the kernel",
    "MB",
    compared="absolute",
    noise=COUNTED,
)
SENT_BY_A_RANK = Figure(
    "sent-rank-epoch",
    "sent by a rank in an epoch",
    sent_by_a_rank,
    "as counted by the kernel, mean over the ranks",
    "MB",
    compared="absolute",
    noise=COUNTED,
)
SENT_PER_WORKER = Figure(
    "sent-per-worker",
    "sent per worker",
    sent_per_worker,
    "in the whole run by workers and servers, as counted by the kernel, divided by the number of workers",
    "MB",
    of_run=True,
)
CLOSED_FORM = Figure("closed-form", "closed form", closed_form, "bytes sent in a step, by formula", "MB")
FORMULA_EPOCH = Figure(
    "formula-epoch",
    "bytes by formula",
    formula_of_epoch,
    "2 (N − 1)/N · S for every step of an epoch; S: the bytes of all gradients",
    "MB",
    compared="absolute",
    noise=0.0,
)
OVERHEAD = Figure(
    "overhead",
    "overhead",
    overhead,
    "counted bytes beyond the closed form: headers, acknowledgements, control messages",
    form="+.1%",
)
TOP_SENT = Figure(
    "top-sent",
    "highest rate sent",
    lambda at: top_rate(at.run.folder, at.rank or 0, "sent_bytes"),
    "as counted by the kernel, averaged over a second or a step, whichever is longer",
    "MB/s",
)
TOP_RECEIVED = Figure(
    "top-received",
    "highest rate received",
    lambda at: top_rate(at.run.folder, at.rank or 0, "received_bytes"),
    "as counted by the kernel, averaged over a second or a step, whichever is longer",
    "MB/s",
)
PAYLOAD_STEP = {
    kind: Figure(
        f"{kind}-step",
        kind,
        payload(kind, "kinds"),
        "payload handed to collectives or taken from them in a step, whichever is more",
        "MB",
        compared="absolute",
        noise=0.0,
        in_full=f"{'BatchNorm statistics' if kind == 'buffers' else kind} in a step",
    )
    for kind in ("gradients", "parameters", "buffers", "control")
}
"""Kind of payload -> its bytes in a step. Buffers: the statistics of BatchNorm."""

PARAMETERS_START = Figure(
    "parameters-start",
    "parameters before the first step",
    payload("parameters", "setup"),
    "payload handed to collectives",
    "MB",
    compared="absolute",
    noise=0.0,
)
BANDWIDTH = Figure(
    "bandwidth",
    "bandwidth used",
    bandwidth,
    "2 (N − 1)/N · S over the time of communication in a step, hidden or not; S: the bytes of all gradients",
    "GB/s",
    of_steps=True,
)
LINK = Figure(
    "link", "link", lambda at: link_bytes_per_second(at.figures), "bandwidth of the link of an emulated node", "GB/s"
)
LINK_SHARE = Figure(
    "link-share",
    "of the link",
    share_of_link,
    f"{BANDWIDTH.title} over that of the link of an emulated node",
    form=".0%",
    of_steps=True,
)
