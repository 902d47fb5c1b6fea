"""Tie this process to the one that started it, then become the program that was asked for.

This comes before torch is imported, which takes a second or more: a rank whose launcher is killed in that time would
otherwise run forever.
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
