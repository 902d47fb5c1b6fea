"""No communication at all: the time of a step if synchronization were free. Not a way to train a model."""

from __future__ import annotations

from gradsync.comm import Traffic
from gradsync.strategies.base import Strategy


class NoAgreement(Strategy):
    """1. Every worker updates with the gradient of its own share.

    The workers' models drift apart. It does not declare itself inexact, so ``verify`` calls it wrong.
    Cost per step: nothing.
    """

    after_backward = "final"

    @property
    def replicas_differ(self) -> bool:
        return self.comm.size > 1

    def gradient_traffic(self, count: int) -> Traffic:
        return Traffic()
