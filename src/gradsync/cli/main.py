"""The entry point. Parses first and imports the rest after, so that --help answers at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from gradsync.cli import commands
from gradsync.cli.arguments import parse
from gradsync.cli.watching import commands as watching
from gradsync.errors import InputError, plainly, signal_name
from gradsync.parent import stops_raised
from gradsync.text import printable

# Command -> the module that carries it out, in a function of the same name.
MODULES: dict[type, str] = {
    commands.Train: "command.train",
    commands.Finish: "command.finish",
    commands.Compare: "command.compare",
    commands.StudyRuns: "study",
    commands.Reproduce: "command.reproduce",
    commands.Report: "command.report",
    commands.Show: "command.show",
    commands.Verify: "command.verify",
    commands.Probe: "command.probe",
    commands.Trace: "command.trace",
    commands.Data: "command.data",
    commands.Cluster: "command.cluster",
    watching.Watch: "watching.watch",
    watching.Merge: "watching.merge",
}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Exit with 0: all went well; 1: a run failed; 2: the input was wrong; 128 + N: interrupted by signal N."""
    # Before torch is imported: it warns about every address without a host name, such as those of emulated nodes.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        with stops_raised():
            code = dispatch(parse(list(sys.argv[1:] if argv is None else argv)))
            sys.stdout.flush()
    except InputError as error:
        from gradsync.draw.console import say

        say(f"gradsync: {printable(error)}", sys.stderr)
        code = 2
    except KeyboardInterrupt as stop:
        code = 128 + signal.Signals[signal_name(stop)]
    except BrokenPipeError:
        sys.stdout = None  # the reader has gone; nothing is left to flush
        code = 128 + signal.SIGPIPE
    except OSError as error:  # the disk is full, a folder was deleted meanwhile, too few file descriptors, ...
        sys.stdout = None  # or Python would try again to write what did not fit on a full disk
        print(f"gradsync: {plainly(error)}", file=sys.stderr)
        code = 1
    sys.exit(code)


def dispatch(command: Any) -> int:
    place = MODULES[type(command)]
    module = import_module(f"gradsync.cli.{place}")
    return getattr(module, place.rpartition(".")[2])(getattr(command, "action", command))


if __name__ == "__main__":
    main()
