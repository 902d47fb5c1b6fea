"""The functions of torch.distributed with stamps around them: what a script sends, and when.

A function is replaced in every module of torch in which scripts and torch itself look it up, by one that calls it
unchanged. A message that is sent in the background ends when its future does, or else when it is waited for. Messages
that are sent past these functions have no stamps; that there were some is noted.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d

from gradsync.ledger.stamps import IN_SUBGROUP, POINT_TO_POINT
from gradsync.observe.traffic import closed_form
from gradsync.observe.watcher import Watcher

if TYPE_CHECKING:
    from gradsync.meter.recorder import Call

Replace = Callable[[list[Any], str, Callable[[Any], Any]], None]
"""Of objects and a name: replace what all of them have under it by what the function makes of that."""


class Message(NamedTuple):
    """One call, as this rank takes part in it."""

    operation: str
    tensor: Tensor | None
    amount: int
    """The bytes each rank hands over, or for a root receives from each."""

    root: int | None = None
    """Its rank in the group."""

    def payload(self, rank: int, size: int) -> tuple[int, int]:
        """Bytes this rank sends and receives, as Comm counts them."""
        is_root, others = rank == self.root, self.amount * (size - 1)
        if self.operation == "gather":
            return (0, others) if is_root else (self.amount, 0)
        if self.operation == "scatter":
            return (others, 0) if is_root else (0, self.amount)
        if self.operation == "reduce":
            return (0, self.amount) if is_root else (self.amount, 0)
        if self.operation == "broadcast":
            return (self.amount, 0) if is_root else (0, self.amount)
        if self.operation == "send":
            return self.amount, 0
        if self.operation == "receive":
            return 0, self.amount
        if self.operation == "all_gather":
            return self.amount, others
        if self.operation == "reduce_scatter":
            return self.amount - self.amount // size, self.amount // size
        return self.amount, self.amount


OF_A_GROUP = (
    *("allreduce", "allreduce_coalesced", "reduce", "broadcast", "gather", "scatter", "allgather", "_allgather_base"),
    *("allgather_coalesced", "allgather_into_tensor_coalesced", "all_gather_single", "all_gather_single_coalesced"),
    *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced", "reduce_scatter_single"),
    *("reduce_scatter_single_coalesced", "alltoall", "alltoall_base", "all_to_all_single", "send", "recv"),
)
"""Methods of a ProcessGroup that send."""

FUNCTIONAL = (
    *("all_reduce", "broadcast", "all_gather_tensor", "all_gather_single", "reduce_scatter_tensor"),
    *("reduce_scatter_single", "all_to_all_single", "all_reduce_coalesced", "all_gather_into_tensor_coalesced"),
    *("all_gather_single_coalesced", "reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
    *("all_gather_tensor_autograd", "all_gather_single_autograd", "reduce_scatter_tensor_autograd"),
    *("reduce_scatter_single_autograd", "all_to_all_single_autograd"),
)
"""Functions of torch.distributed._functional_collectives that send, such as those DTensor calls."""

UNSTAMPED = (
    "messages were sent past the functions of torch.distributed, by functional collectives (as DTensor does) or by "
    "methods of a ProcessGroup: their time is counted as part of the phase in which they were called"
)
OF_A_SUBGROUP = (
    "collectives of a subgroup of the ranks were called: waiting for these ranks is counted as wire, as the record "
    "does not name them"
)

Given = dict[str, Any]
"""The arguments of a call by name."""


def on_all(name: str, operation: str) -> Callable[[Given], Message]:
    return lambda given: Message(operation, first(given[name]), nbytes(given[name]))


def rooted(operation: str, root: str) -> Callable[[Given], Message]:
    """``root``: dst or src, a rank of the world; group_dst or group_src, if given, is that of the group."""

    def read(given: Given) -> Message:
        within = given.get(f"group_{root}")
        if within is None:
            within, group = given.get(root), given.get("group")
            within = 0 if within is None else within
            within = within if group is None or is_world(group) else dist.get_group_rank(group, within)
        return Message(operation, given["tensor"], given["tensor"].nbytes, within)

    return read


MESSAGES: dict[str, Callable[[Given], Message]] = {
    "all_reduce": on_all("tensor", "all_reduce"),
    "reduce": rooted("reduce", "dst"),
    "broadcast": rooted("broadcast", "src"),
    "gather": rooted("gather", "dst"),
    "scatter": rooted("scatter", "src"),
    "all_gather": on_all("tensor", "all_gather"),
    "all_gather_into_tensor": on_all("input_tensor", "all_gather"),
    "all_gather_single": on_all("input_tensor", "all_gather"),
    "reduce_scatter": on_all("input_list", "reduce_scatter"),
    "reduce_scatter_tensor": on_all("input", "reduce_scatter"),
    "reduce_scatter_single": on_all("input", "reduce_scatter"),
    "all_to_all": on_all("input_tensor_list", "all_to_all"),
    "all_to_all_single": on_all("input", "all_to_all"),
    "send": on_all("tensor", "send"),
    "isend": on_all("tensor", "send"),
    "recv": on_all("tensor", "receive"),
    "irecv": on_all("tensor", "receive"),
    "barrier": lambda _: Message("barrier", None, 0),
}


def first(tensors: Any) -> Tensor | None:
    return tensors if isinstance(tensors, Tensor) else next(iter(tensors), None)


def nbytes(tensors: Tensor | Sequence[Tensor]) -> int:
    return tensors.nbytes if isinstance(tensors, Tensor) else sum(item.nbytes for item in tensors)


def is_world(group: Any) -> bool:
    return group is None or group is dist.group.WORLD


class Messages:
    """Those of one process."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._in_flight: dict[int, tuple[Any, Call | None]] = {}
        """id of a work without a future -> it, so that the id stays its own, and its call: until it is waited for."""

    def install(self, replace: Replace) -> None:
        for name in MESSAGES:
            if hasattr(distributed_c10d, name):
                replace([distributed_c10d, dist], name, functools.partial(self._stamped, name))
        for name in OF_A_GROUP:
            if hasattr(dist.ProcessGroup, name):
                replace([dist.ProcessGroup], name, self._noted)
        replace([dist.Work], "wait", self._stamped_wait)
        replace([distributed_c10d, dist], "destroy_process_group", self._before_the_end)

    def note_functional(self, replace: Replace) -> None:
        """Training begins. A script that uses functional collectives, or what is built on them, has imported them."""
        if functional := sys.modules.get("torch.distributed._functional_collectives"):
            for name in FUNCTIONAL:
                if hasattr(functional, name):
                    replace([functional], name, self._noted)

    def _noted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        watcher = self._watcher

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling() and watcher.meter is not None and not watcher.within:
                watcher.remark(UNSTAMPED)
            return original(*args, **kwargs)

        return call

    def _stamped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        watcher, read, names = self._watcher, MESSAGES[name], list(signature(original).parameters)
        always_in_background = name in ("isend", "irecv")

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not watcher.on or watcher.within:
                return original(*args, **kwargs)
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            background = always_in_background or bool(given.get("async_op"))
            stamps = self._begins(read, given, background)
            with watcher.quiet():
                work = original(*args, **kwargs)
            if background and work is not None:
                self._end_later(work, stamps)
                if isinstance(given.get("tensor"), Tensor) and given["tensor"].numel() == 1:
                    watcher.latest_flag = (work, given["tensor"])
            else:
                watcher.arrived(stamps)
            return work

        return call

    def _begins(self, read: Callable[[Given], Message], given: Given, background: bool) -> Call | None:
        watcher, group = self._watcher, given.get("group")
        try:
            if not dist.is_initialized() or dist.get_rank(group) < 0:
                return None
            message, rank, size = read(given), dist.get_rank(group), dist.get_world_size(group)
            whole = size == dist.get_world_size() or message.operation in POINT_TO_POINT
            sent, received = message.payload(rank, size)
            watcher.traffic += closed_form(message.operation, rank, message.root or 0, size, message.amount)
            if not whole and watcher.meter is not None:
                watcher.remark(OF_A_SUBGROUP)
            operation = message.operation if whole else IN_SUBGROUP
            return watcher.message(operation, watcher.kind_of(message.tensor), sent, received, background)
        except (
            KeyError,
            AttributeError,
            TypeError,
            ValueError,
        ):  # the script's own mistake, which torch will tell it
            return None

    def _end_later(self, work: Any, stamps: Call | None) -> None:
        if stamps is None:
            return
        try:
            work.get_future().add_done_callback(lambda _: self._watcher.arrived(stamps, dist_on_host()))
        except RuntimeError:  # the operation, or the backend, has no future
            self._in_flight[id(work)] = (work, stamps)

    def _stamped_wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        watcher = self._watcher

        @functools.wraps(original)
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or watcher.within:
                return original(work, *args, **kwargs)
            with watcher.waiting():
                answer = original(work, *args, **kwargs)
            if found := self._in_flight.pop(id(work), None):
                watcher.arrived(found[1])
            return answer

        return wait

    def _before_the_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def destroy(*args: Any, **kwargs: Any) -> Any:
            if is_world(args[0] if args else kwargs.get("group")):
                self._watcher.group_ends()
            return original(*args, **kwargs)

        return destroy


def dist_on_host() -> bool:
    """Whether the end of a message is seen by the host, and not in the stream of a GPU."""
    return dist.is_initialized() and dist.get_backend() == "gloo"
