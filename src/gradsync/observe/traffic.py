"""What an operation of a script puts on the wire at one rank, in closed form. Arithmetic only."""

from __future__ import annotations

from gradsync.ledger import cost
from gradsync.ledger.cost import Traffic


def closed_form(operation: str, rank: int, root: int, size: int, count: float) -> Traffic:
    """``count``: the bytes each rank hands over, or for a root receives from each; over gloo, as ledger/cost.py.

    Gloo's reduce-scatter is an all-reduce of which each rank keeps its part.
    """
    here = (rank - root) % size  # as if rank 0 were the root
    if operation == "gather":
        return cost.gather(here, size, count)
    if operation == "scatter":
        return cost.scatter(here, size, count)
    if operation == "reduce":
        return cost.reduce(here, size, count)
    if operation == "broadcast":
        return cost.broadcast(here, size, count)
    if operation in ("all_reduce", "reduce_scatter"):
        return cost.all_reduce(size, count)
    if operation == "all_gather":
        return Traffic((size - 1) * count, (size - 1) * count)
    if operation == "all_to_all":
        each = cost.link_share("all-to-all", size) * count
        return Traffic(each, each)
    if operation == "send":
        return Traffic(count, 0)
    if operation == "receive":
        return Traffic(0, count)
    return Traffic()
