"""Ranks with different numbers of batches: one that has run out takes part with zero weight until all have.

Every step starts with a small message: who has a batch, and which of the attached models it is for. It is sent when
gradients are about to be sent: by ``agree``, or when backward begins if the strategy sends during backward. A rank
without a batch contributes gradients of zero to the step of that model, and the mean is that over the ranks with one.

It makes no update: it knows neither of the clipping nor of the learning rates in the others' loops. Once every rank
has run out, those that have missed an update take over the state of one that has not (takeover.py).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.futures import Future
from torch.optim import Optimizer

from gradsync.comm import Comm
from gradsync.errors import InputError

SEVERAL_BACKWARDS = (
    "rank {absent} has run out of batches, and here a backward begins before the gradients of another have become a "
    "step. With a strategy that sends gradients during backward, every rank then needs the same number of batches. "
    "HINT: put all but the last micro-batch inside sync.accumulating(); attach several models with one backward with "
    "all-reduce."
)
ALL_NEEDED = (
    "rank {absent} has run out of batches, but sync_bn takes the mean over the batches of all ranks in every layer. "
    "HINT: give every rank the same number of batches, for instance with DistributedSampler, or leave sync_bn out."
)
RATES_DIFFER = (
    "the ranks would make this step with different learning rates. A rank that runs out of batches before the others "
    "takes over their learning rates and the state of torch's schedulers, but not what the script itself counts. "
    "HINT: compute a schedule of your own from sync.steps; give ReduceLROnPlateau a figure that all ranks share."
)


class Attachment(Protocol):
    """What is asked of an attached model on a rank without a batch."""

    optimizer: Optimizer

    @property
    def update_sends(self) -> bool:
        """Whether the update consists of more than this rank's own."""

    def contribute(self, present: list[int], *, sent: bool) -> None:
        """Take part in a step of those present with zero weight. ``sent``: a backward of this rank was its part."""

    def rest(self) -> None:
        """Take part in the messages of their update."""

    def catch_up(self, exchange: Callable[[int], list[int]], comm: Comm) -> None:
        """Take over the state of the rank that has made the most steps; ``exchange`` tells every rank's number."""


class Message:
    """What every rank is about to do: a number per rank, zero for a rank without a batch."""

    def __init__(self, coming: Future[Tensor]) -> None:
        self._coming = coming
        self.backward = torch._C._current_graph_task_id()
        """The backward in which it was sent; -1 outside."""

    def read(self) -> list[int]:
        return [int(code) for code in self._coming.wait().tolist()]

    def present(self) -> list[int]:
        return [rank for rank, code in enumerate(self.read()) if code]


class Presence:
    """One for all attached models: it is one sequence of messages by which a rank learns whose step is next."""

    def __init__(self, comm: Comm) -> None:
        self._comm = comm.unmetered().on_host()  # it is no message of the strategy
        self._numbers = count(1)
        self._known: WeakValueDictionary[int, Attachment] = WeakValueDictionary()
        self.attached = 0
        self._in_use: dict[int, Attachment] = {}
        """Those that may have made a step since all ranks were at the same point; the same ones on every rank."""

        self._begun: dict[int, Message] = {}
        """Steps that have begun and whose gradients the ranks have not agreed on."""

    def add(self, attachment: Attachment) -> int:
        """Its number, the same on every rank."""
        number = next(self._numbers)
        self._known[number] = self._in_use[number] = attachment
        self.attached += 1
        return number

    def remove(self, number: int) -> None:
        self._in_use.pop(number, None)
        self._begun.pop(number, None)
        self.attached -= 1  # garbage still counts: ranks collect at different times, and must all know the same

    # --- a rank with a batch ---

    def begin(self, number: int) -> None:
        """The gradients of this model are about to be sent; once a step."""
        message, backward = self._begun.get(number), torch._C._current_graph_task_id()
        if message and backward in (message.backward, -1):
            return
        for earlier in self._begun.values():
            self._need_all(earlier, SEVERAL_BACKWARDS)
        self._begun[number] = self._announce(number, self._in_use_now(number))

    def settle(self, number: int) -> list[int]:
        """The ranks with a batch for the step that has begun."""
        message = self._begun.pop(number)
        codes = [code for code in message.read() if code]
        if len({parts_of(code)[:2] for code in codes}) > 1:
            raise InputError("the ranks step different models at the same time: they must all use the same order.")
        if len(set(codes)) > 1:
            raise InputError(RATES_DIFFER)
        return message.present()

    def need_all(self, number: int) -> None:
        """The layers of this model are about to send: no rank may have run out of batches."""
        self._need_all(self._announce(number, self._in_use_now(number)), ALL_NEEDED)

    def begin_update(self, number: int) -> None:
        """With several models, updates that send are announced, too: loops make them in any order."""
        if self._announces(attachment := self._in_use_now(number)):
            self._announce(number, attachment, update=True)

    def _announces(self, attachment: Attachment) -> bool:
        return self.attached > 1 and attachment.update_sends

    def _need_all(self, message: Message, refusal: str) -> None:
        if absent := sorted(set(range(self._comm.size)) - set(message.present())):
            raise InputError(refusal.format(absent=" and ".join(map(str, absent))))

    def _in_use_now(self, number: int) -> Attachment:
        attachment = self._known.get(number)
        if attachment is None:
            raise InputError(
                "another rank still trains a model that is gone here. HINT: keep what attach returned until the "
                "training ends, or use it in a `with` block."
            )
        self._in_use[number] = attachment
        return attachment

    # --- a rank without one ---

    def wait_for_others(self) -> None:
        """Take part in the steps of the others until all ranks are here; then all have the same state."""
        begun, self._begun = self._begun, {}
        for number, message in begun.items():  # by a backward that was followed by no step
            self._take_part(self._in_use_now(number), message.present(), sent=True)
        while present := (message := self._announce()).present():
            number, update, _ = parts_of(message.read()[present[0]])
            attachment = self._in_use_now(number)
            if update:
                attachment.rest()
            else:
                self._take_part(attachment, present)
        for _, attachment in sorted(self._in_use.items()):
            attachment.catch_up(self._exchange, self._comm)
        self._in_use.clear()

    def _take_part(self, attachment: Attachment, present: list[int], *, sent: bool = False) -> None:
        attachment.contribute(present, sent=sent)
        if not self._announces(attachment):
            attachment.rest()

    # --- the messages ---

    def _announce(self, number: int = 0, attachment: Attachment | None = None, *, update: bool = False) -> Message:
        code = code_of(number, update, rates_of(attachment.optimizer)) if attachment else 0
        return Message(self._send(code))

    def _exchange(self, value: int) -> list[int]:
        return Message(self._send(value)).read()

    def _send(self, value: int) -> Future[Tensor]:
        values = torch.zeros(self._comm.size, dtype=torch.int64)
        values[self._comm.rank] = value
        return self._comm.all_reduce_later(values, kind="control")


def code_of(number: int, update: bool, rates: int) -> int:
    return rates << 32 | number << 1 | update


def parts_of(code: int) -> tuple[int, bool, int]:
    return code % 2**32 >> 1, bool(code & 1), code >> 32


def rates_of(optimizer: Optimizer) -> int:
    """A number of 30 bits that is the same for the same learning rates. Those on a GPU are not read."""
    rates = [group.get("lr") for group in optimizer.param_groups]
    return hash(tuple(rate for rate in rates if isinstance(rate, (int, float)))) & (2**30 - 1)


def weigh(gradients: list[Tensor], present: int, size: int) -> None:
    """Turn the mean over all ranks, of which some contributed zero, into the mean over those present."""
    if 0 < present < size:
        torch._foreach_mul_(gradients, size / present)


_presence: Presence | None = None


def presence(comm: Comm) -> Presence:
    """That of this process; every rank calls this at the same point."""
    global _presence
    if _presence is None or not _presence.attached:
        _presence = Presence(comm)
    return _presence


def wait_for_others() -> None:
    """Before another model is attached, and at the end of the script."""
    if _presence is not None and _presence.attached:
        _presence.wait_for_others()
