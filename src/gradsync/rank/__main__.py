"""Tie this process to the one that started it, then become the program that was asked for.

First of all and before torch, which takes a second or more to import: a rank whose starter is killed meanwhile would
stay for ever.
"""

from __future__ import annotations

import importlib
import signal
import sys

from gradsync.parent import end_with_parent

PROGRAMS = ("worker", "prober")


def main() -> None:
    end_with_parent(signal.SIGKILL)
    if sys.argv[1:2] not in [[name] for name in PROGRAMS]:
        sys.exit(f"gradsync: python -m gradsync.rank {'|'.join(PROGRAMS)} FOLDER...")
    importlib.import_module(f"gradsync.rank.{sys.argv[1]}").main(sys.argv[2:])


if __name__ == "__main__":
    main()
