"""One process and no messages: the baseline that every other strategy is compared with."""

from __future__ import annotations

from gradsync.strategies.base import Strategy


class Local(Strategy):
    """1. Update with the gradient of this process."""

    in_one_process = True
