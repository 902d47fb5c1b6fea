"""Random command lines and garbled config files: none may end in a traceback, none may hang.

    python benchmarks/proofs/fuzz.py [--smoke]                                  about 1 minute; expected: 0 bad
    python benchmarks/proofs/fuzz.py --command-lines 5000 --configs 2000        about 10 minutes

Every case runs the real command in this process, up to where it would start another one, in a temporary folder, with
a limit of 20 s. Prints how the cases ended, and the first bad ones; the exit code is 1 if there are any.
"""

from __future__ import annotations

import io
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

sys.path.append(str(Path(__file__).parent.parent))

from arguments import asked
from fuzz_cases import Case, command_line, config_file
from gradsync.cli.main import main as gradsync

LIMIT_SECONDS = 20
MEMORY = 8 << 30  # absurdly large requests fail at once instead of filling the machine
MOST_SHOWN = 10

OWN = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
def net(): return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
def sets(): return [TensorDataset(torch.zeros(64, 1, 28, 28), torch.arange(64) % 10) for _ in range(2)]
def floats(): return [TensorDataset(torch.zeros(64, 1, 28, 28), torch.rand(64)) for _ in range(2)]
def breaks(): return 1 / 0
"""


class Started(BaseException):
    """The command would start a process now, or change the machine."""


class Hung(BaseException):
    """It has taken too long."""


def start(*_: object, **__: object) -> NoReturn:
    raise Started


@contextmanager
def nothing_starts(state: Path) -> Iterator[None]:
    """No process is started, nothing is fetched, and the machine's network stays as it is."""
    import torch.distributed  # noqa: F401 - it uses subprocess.Popen when it is imported

    from gradsync.cli.command import cluster as cli_cluster
    from gradsync.cluster import lifecycle, network, spec

    with ExitStack() as stack:
        for name in ("subprocess.Popen", "os.execvp", "gradsync.launch.run_in_turn", "gradsync.launch.start"):
            stack.enter_context(patch(name, start))
        for name in ("up", "down", "down_named", "down_all"):
            stack.enter_context(patch.object(lifecycle, name, start))
        for place, name in ((network, "set_attached"), (network, "shape"), (cli_cluster, "enter")):
            stack.enter_context(patch.object(place, name, start))
        stack.enter_context(patch("gradsync.data.fetch.retrieve", start))
        stack.enter_context(patch("gradsync.cluster.gauge.measure_shares", start))
        stack.enter_context(patch("gradsync.cluster.privilege.ensure", lambda: None))
        stack.enter_context(patch("gradsync.cluster.groups.choose", lambda asked: []))
        stack.enter_context(patch("webbrowser.open", lambda address: True))
        stack.enter_context(patch.object(lifecycle, "check_netem", lambda: None))
        stack.enter_context(patch.object(network, "is_attached", lambda cluster, node: True))
        stack.enter_context(patch.object(spec, "STATE", state))
        yield


def prepare(folder: Path) -> None:
    """What commands may refer to: a model and data of the user's own, a config, a run, clusters whole and broken."""
    from gradsync import launch
    from gradsync.cluster import spec
    from gradsync.config import RunConfig, Shape
    from gradsync.library.runs.check import resolved

    (folder / "own.py").write_text(OWN)
    (folder / "good.toml").write_text('model = "logistic"\nsteps = 2\n')
    (folder / "state").mkdir()
    (folder / "state" / "broken.json").write_bytes(b'{"name": \xff')
    with patch.object(spec, "STATE", folder / "state"):
        spec.remember(spec.make("lab", Shape(nodes=2)))
    asked = RunConfig(model="logistic", steps=3, train_samples=64, test_samples=64, out=str(folder / "runs"))
    launch.run(resolved(asked))


def ending(case: Case, limit: float = LIMIT_SECONDS) -> tuple[str, str]:
    """How the command ended, and its messages if it should not have ended that way."""
    for name, content in case.files.items():
        Path(name).write_bytes(content)
    said = io.TextIOWrapper(io.BytesIO(), errors="backslashreplace", write_through=True)
    shown = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)  # as strict as the real one
    before = signal.signal(signal.SIGALRM, hang_up)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        with redirect_stdout(shown), redirect_stderr(said):
            gradsync(case.argv)
    except SystemExit as end:
        signal.setitimer(signal.ITIMER_REAL, 0)
        said.seek(0)
        return judged(end.code, said.read())
    except Started:
        return "would start", ""
    except Hung:
        return "HANG", traceback.format_exc()
    except BaseException:
        return "TRACEBACK", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return "TRACEBACK", "it returned"


def judged(code: Any, said: str) -> tuple[str, str]:
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    of_users = "raised an error:" in said  # an error of the user's model or data, with its traceback
    if "Traceback" in said and not of_users:
        return "TRACEBACK", said
    if code == 2:
        return ("refused", "") if said.startswith("gradsync: ") else ("NO SENTENCE", said)
    return ("done", "") if code == 0 else ("failed", "") if code == 1 else ("OTHER CODE", f"{code}: {said}")


def hang_up(*_: object) -> NoReturn:
    raise Hung


def tried(make: Callable[[random.Random], Case], seed: int, count: int) -> Iterator[tuple[Case, str, str, float]]:
    for number in range(count):
        case = make(random.Random(f"{seed} {make.__name__} {number}"))
        begin = time.monotonic()
        yield (case, *ending(case), time.monotonic() - begin)


def tell(make: Callable[[random.Random], Case], seed: int, count: int) -> list[str]:
    """Try ``count`` cases and print how they ended. Returns a description of each that ended badly."""
    ends: Counter[str] = Counter()
    longest = 0.0
    bad = []
    for case, end, said, seconds in tried(make, seed, count):
        ends[end] += 1
        longest = max(longest, seconds)
        if end.isupper():
            files = [f"  {name}: {data[:300]!r}" for name, data in case.files.items()]
            bad.append("\n  ".join([f"{end}: {case.argv!a}", *files, *said.strip().splitlines()[-8:]]))
    told = ", ".join(f"{number:,} {end}" for end, number in ends.most_common())
    print(f"{make.__name__:13}{count:6,} cases: {told}; {len(bad)} bad; the longest {longest:.1f} s", flush=True)
    return bad


def main() -> int:
    given = asked(__doc__, command_lines=(500, 4), configs=(200, 4), seed=(0, 0))
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        os.environ["GRADSYNC_DATA"] = str(Path(folder) / "no-data")
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))  # not AS: the chart library reserves far more
        with nothing_starts(Path(folder) / "state"):
            bad = tell(command_line, given.seed, given.command_lines) + tell(config_file, given.seed, given.configs)
        os.chdir("/")
    print(*bad[:MOST_SHOWN], sep="\n\n")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
