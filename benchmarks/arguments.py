"""The arguments of every benchmark: a flag for each of its settings, and --smoke to run it with tiny ones."""

from __future__ import annotations

import argparse
from typing import Any


def asked(description: str | None, **flags: tuple[Any, Any]) -> argparse.Namespace:
    """``flags``: for each the default and the value under --smoke; a flag that is given overrides both.

    --smoke runs the same code in seconds, to show that it still runs. Its measurements mean nothing.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, takes seconds: does it still run?")
    for name, (default, _) in flags.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), help=f"default: {default}")
    given = parser.parse_args()
    for name, (default, tiny) in flags.items():
        if getattr(given, name) is None:
            setattr(given, name, tiny if given.smoke else default)
    return given
