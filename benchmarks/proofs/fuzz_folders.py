"""Damaged run folders, benchmarks and studies: whatever was done to them, no command may end in a traceback or hang.

    python benchmarks/proofs/fuzz_folders.py [--smoke]                       about 1 minute; expected: none
    python benchmarks/proofs/fuzz_folders.py --count 10000 --seed 1          about half an hour
    python benchmarks/proofs/fuzz_folders.py --count 1 --seed 1 --first N    repeats case N of that

Real folders are made once. Each case is a copy of one of them, damaged in one to three places, beside a good run; the
commands that read records are called on both, in this process. The good run must always be shown.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

sys.path.append(str(Path(__file__).parent.parent))

from arguments import asked
from gradsync.cli.main import main as gradsync

LIMIT_SECONDS = 20
SAMPLES = ["--train-samples", "64", "--test-samples", "16"]
SMALL = ["--model", "logistic", *SAMPLES, "--batch-size", "16", "--epochs", "2"]


class Hang(BaseException):
    """Not an Exception, so that no handler catches it on the way."""


def make_originals(place: Path, smoke: bool) -> dict[str, Path]:
    """name -> folder, of every kind that is read; with --smoke only two kinds, as each takes seconds to start."""
    runs, studies = ["--out", str(place / "runs")], ["--out", str(place / "studies")]
    two = ["--workers", "2"]
    ways = {
        "all-reduce": ["train", *SMALL, *runs, *two, "--strategy", "all-reduce"],
        "ps-async": ["train", *SMALL, *runs, *two, "--strategy", "ps-async"],
        "local": ["train", *SMALL, *runs, "--strategy", "local"],
        "probe": ["probe", *runs, *two, "--sizes", "1KB,4KB", "--operations", "all-reduce", "--seconds", "0.01"],
        "study": ["study", "scaling", *SMALL, *studies, "--workers", "1,2", "--strategies", "all-reduce"],
    }
    ways["study"] += ["--modes", "strong"]
    found: dict[str, Path] = {}
    for name in ("all-reduce", "local") if smoke else ways:
        words = [sys.executable, "-m", "gradsync.cli", *ways[name]]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        made = place / "studies" if name == "study" else place / "runs"
        (found[name],) = set(made.iterdir()) - set(found.values())
    for name in ("all-reduce", "ps-async", "local"):
        if name in found:
            found[f"{name}, unfinished"] = shutil.copytree(found[name], place / "unfinished" / name)
            (found[f"{name}, unfinished"] / "summary.json").unlink()
    return found


# Values that replace others. Those that json.dumps cannot write take the place of a mark in its output.
RAW = {
    "@huge": "9" * 5000,
    "@infinite": "1e999",
    "@nan": "NaN",
    "@deep": "[" * 100_000 + "]" * 100_000,
    "@deep table": '{"a":' * 900 + "1" + "}" * 900,
    "@surrogate": '"\\ud800"',
    "@raw escape": '"\x7f\x9b31m"',
}
NUMBERS = [0, 1, -1, 2, 0.5, -0.5, 1e-300, 1e18, 1e200, 1e308, -1e308, 10**9, 10**18, 10**30]
ESCAPES = ["a\nb\tc\r", "\x1b[31mred\x1b[0m\x07", "\u202egnp"]
TEXTS = ["", "x", "0", "NaN", "../..", "[/red]", "[bold]", "ü" * 3000, *ESCAPES]
LISTS = [[], [None], [[]], [[], {}], list("abc"), [1e308, 1e308], [0] * 5000]
TABLES = [{}, {"": None}, {"0": 0}, {"a": {"b": []}}]
ODD: list[Any] = [*RAW, None, True, False, *NUMBERS, *TEXTS, *LISTS, *TABLES]


def damage_file(path: Path, random: random.Random) -> None:
    """Damage a file as disks, copies, editors and killed processes do."""
    data = path.read_bytes()
    middle = random.randrange(len(data) + 1)
    lines = data.splitlines(keepends=True)
    line = random.randrange(len(lines)) if lines else 0

    def flipped() -> bytes:
        changed = bytearray(data)
        for _ in range(random.choice((1, 3, 30))):
            if changed:
                changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        return bytes(changed)

    contents: dict[str, Callable[[], bytes]] = {
        "flipped": flipped,
        "cut": lambda: data[:middle],
        "empty": lambda: b"",
        "binary": lambda: random.randbytes(200),
        "zeros": lambda: bytes(500),
        "another encoding": lambda: data.decode(errors="replace").encode("utf-16"),
        "garbage inside": lambda: data[:middle] + random.randbytes(20) + data[middle:],
        "line lost": lambda: b"".join(lines[:line] + lines[line + 1 :]),
        "line twice": lambda: b"".join(lines[: line + 1] + lines[line:]),
        "lines shuffled": lambda: b"".join(random.sample(lines, len(lines))),
        "null line": lambda: b"".join([*lines[:line], b"null\n", *lines[line:]]),
        "blank line": lambda: b"".join([*lines[:line], b"\n", *lines[line:]]),
        "all twice": lambda: data + data,
    }
    places: dict[str, Callable[[], Any]] = {
        "deleted": path.unlink,
        "renamed": lambda: path.rename(path.with_name(f"{path.stem} (copy){path.suffix}")),
        "copied": lambda: shutil.copy(path, path.with_name(f"{path.stem} (copy){path.suffix}")),
        "other rank": lambda: path.rename(path.with_name(random.choice(("rank-7.jsonl", "rank-99999999.jsonl")))),
        "folder": lambda: (path.unlink(), path.mkdir()),
        "pipe": lambda: (path.unlink(), os.mkfifo(path)),
        "loop": lambda: (path.unlink(), path.symlink_to(path)),
    }
    how = random.choice([*contents, *places])
    if how in contents:
        path.write_bytes(contents[how]())
    else:
        places[how]()


def damage_value(path: Path, random: random.Random) -> None:
    """Change, remove or wrap one value in the JSON, or in one of its rows."""
    lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    number = random.randrange(len(lines))
    value = json.loads(lines[number])
    places = list(places_in(value))
    *way, key = random.choice(places[1:] or [("",)])
    holder = at(value, way)
    how = random.random()
    if len(places) == 1:
        value = random.choice(ODD)
    elif how < 0.15:
        del holder[key]
    elif how < 0.25:
        holder[key] = [holder[key]]
    elif how < 0.4 and isinstance(holder[key], (int, float)):
        holder[key] = type(holder[key])(holder[key] * random.choice((-1, 0, 0.5, 1000, 1e12)))
    elif how < 0.6:  # a value from elsewhere is of a plausible size and type
        kind = type(holder[key])
        holder[key] = random.choice([item for place in places if type(item := at(value, place)) is kind])
    else:
        holder[key] = random.choice(ODD)
    text = json.dumps(value)
    for mark, raw in RAW.items():
        text = text.replace(json.dumps(mark), raw)
    lines[number] = text
    path.write_bytes(("\n".join(lines) + "\n").encode(errors="surrogatepass"))


def at(value: Any, where: Sequence[Any]) -> Any:
    for key in where:
        value = value[key]
    return value


def places_in(value: Any, *where: Any) -> Iterator[tuple[Any, ...]]:
    yield where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places_in(item, *where, key)


def damage(folder: Path, random: random.Random) -> None:
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        files = [path for path in folder.rglob("*.json*") if path.is_file() and not path.is_symlink()]
        if not files:
            return
        # Every file is equally likely, whatever its size: most rows are steps, few are like rank 0's start.
        path = random.choice(files)
        if random.random() < 0.4:
            damage_file(path, random)
            continue
        try:
            damage_value(path, random)
        except (ValueError, IndexError, RecursionError):  # earlier damage has left no valid JSON
            damage_file(path, random)


def commands(place: Path, folder: Path, number: int) -> Iterator[list[str]]:
    """``place`` has the damaged folder and a good run; slower commands come only now and then."""
    out = place.parent / "out"
    yield ["show", str(place)]
    yield ["show", "--ledger", str(place)]
    yield ["show", "--ledger", str(folder)]
    yield ["show", "--json", str(place)]
    yield ["report", str(place), "-o", str(out / "report.json")]
    yield ["report", str(folder), "-o", str(out / "report.json")]
    if number % 20 == 0:
        yield ["report", str(folder), "-o", str(out / "report.md")]
    if number % 50 == 0:
        yield ["report", str(place), "-o", str(out / "report.html")]
    if number % 100 == 0:
        yield ["report", str(place), "--format", "csv", "-o", str(out / "tables")]
        yield ["report", str(place), "-o", str(out / "report.tex")]
    yield ["trace", str(folder), "-o", str(out / "trace.json")]
    yield ["finish", str(folder)]
    yield ["finish", "--anyway", str(folder)]
    yield ["show", str(folder)]


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def ring(*_: Any) -> NoReturn:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def call(words: list[str]) -> tuple[str, str, str]:
    """How a command ended, what it printed, and its errors or its traceback."""
    printed, errors = io.StringIO(), io.StringIO()
    try:
        with limited(LIMIT_SECONDS), redirect_stdout(printed), redirect_stderr(errors):
            gradsync(words)
    except SystemExit as end:
        return f"exit {end.code}", printed.getvalue(), errors.getvalue()
    except Hang:
        return "hang", "", f"more than {LIMIT_SECONDS} s"
    except BaseException:
        return "traceback", "", traceback.format_exc()


def wrong(words: list[str], end: str, printed: str, errors: str, good: Path) -> str:
    """What is wrong with how it ended; empty if nothing is."""
    if end in ("hang", "traceback"):
        return end
    letters = set(printed + errors) - {"\n", "\t"}
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs") for letter in letters):
        return "raw escape"
    if words[:2] == ["show", "--json"]:
        shown = json.loads(printed) if end == "exit 0" else []
        return "" if any(item["folder"] == str(good) for item in shown) else "good run hidden"
    return ""


def try_one(
    number: int, originals: dict[str, Path], place: Path, seed: int, ends: Counter[tuple[str, str]]
) -> list[str]:
    """One damaged folder; returns what went wrong with it."""
    chance = random.Random(f"{seed} {number}")
    name = chance.choice(list(originals))
    good = shutil.copytree(originals["local"], place / "case" / "good")
    folder = shutil.copytree(originals[name], place / "case" / "damaged")
    (place / "out").mkdir(exist_ok=True)
    damage(folder, chance)
    found = []
    for words in commands(place / "case", folder, number):
        end, printed, errors = call(words)
        bad = wrong(words, end, printed, errors, good)
        ends[words[0] + (f" {words[1]}" if words[1].startswith("--") else ""), bad or end] += 1
        if bad:
            found.append(f"case {number} ({name}): gradsync {' '.join(words)}: {bad}\n{errors}")
    shutil.rmtree(place / "case")
    return found


def main() -> None:
    given = asked(__doc__, count=(200, 4), seed=(0, 0), first=(0, 0))
    ends: Counter[tuple[str, str]] = Counter()
    bad: list[str] = []
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        originals = make_originals(place, given.smoke)
        for number in range(given.first, given.first + given.count):
            found = try_one(number, originals, place, given.seed, ends)
            bad += found
            print(*found, sep="\n", end="\n" if found else "", flush=True)
    print(f"{given.count} damaged folders, seed {given.seed}, {time.monotonic() - begin:.0f} s\n")
    columns = sorted({end for _, end in ends})
    print(f"{'command':<18}" + "".join(f"{end:>14}" for end in columns))
    for command in dict.fromkeys(command for command, _ in ends):
        print(f"{command:<18}" + "".join(f"{ends[command, end]:>14}" for end in columns))
    print(f"\n{len(bad)} of {sum(ends.values())} commands: traceback, hang, raw escape, or good run hidden.")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
