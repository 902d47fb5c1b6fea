"""No communication at all: what a step would take if agreeing cost nothing. Not a way to train one model."""

from __future__ import annotations

from gradsync.comm import Traffic
from gradsync.strategies.base import Strategy


class NoAgreement(Strategy):
    """1. Every worker updates with the gradient of its own share.

    The workers' models drift apart, and ``verify`` calls it wrong, on purpose.
    Cost per step: nothing.
    """

    @property
    def replicas_differ(self) -> bool:
        return self.comm.size > 1

    def gradient_traffic(self, count: int) -> Traffic:
        return Traffic()
