"""What fuzz.py tries: command lines and config files, from valid through almost valid to absurd."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from gradsync.cli.commands import Gradsync
from gradsync.cli.flags import Flag, flags_of
from gradsync.study import STUDIES

GOOD = {
    "model": ["logistic", "mnist-cnn", "vgg11", "own.py:net"],
    "data": ["synthetic", "own.py:sets", "own.py:floats", "mnist", "own.py:breaks"],
    "strategy": ["local", "ddp", "ring", "ps-async", "all-reduce", "data-parallel", "bucketed"],
    "strategies": ["local", "ddp", "ring", "ps-sync", "all-reduce", "gather-scatter"],
    "batch_size": ["24", "48"],
    "inject": ["rank=0,where=data,ms=5", "rank=1,where=link,mbit=10"],
    "bandwidth": ["1gbit", "10kbit"],
    "latency": ["1ms"],
    "memory": ["1GB", "20MB"],
    "cluster": ["lab", "broken"],
    "cpus": ["0.5"],
    "sizes": ["1KB", "4GB"],
    "operations": ["broadcast", "all-reduce"],
    "vary": ["lr=0.1,0.2", "epochs=1,2", "augment=true,false", "workers=1,2", "options.bucket-mb=1,5"],
    "reports": ["mpi-mnist", "hpml-lab4"],
    "columns": ["workers", "total", "accuracy"],
    "config": ["good.toml", "none.toml"],
    "names": ["mnist", "cifar10"],
    "name": ["lab", "broken", "new"],
    "node": ["node1", "node9"],
    "hosts": ["a", "b"],
    "options": ["bucket-mb", "25"],
}
BY_TYPE = {int: ["1", "2", "4"], float: ["0.1", "1"], str: ["x", "lab", "a,b"], Path: ["runs", "made", "none"]}
ALMOST = (
    "",
    " ",
    "0",
    "-1",
    "1.5",
    "two",
    "1e3",
    "0x10",
    "１２",
    "1_000",
    "nan",
    "inf",
    "-inf",
    "None",
    "true",
    "1,2",
)
ABSURD = [
    *(
        "1000000",
        "1000000000",
        "1000000000000000000",
        "9" * 30,
        "9" * 5000,
        "2147483648",
        "1e308",
        "-1e308",
        "1e-320",
    ),
    *("1e308GB", "1e300gbit", "-1GB", "a" * 300, "a" * 5000, "../" * 30 + "x", "/proc/none", "rank=1", "lr=", "lr"),
    *("ü", "日本", "🙂", "$(ls)", "--", "-", "=", ",", ",,,", "%s", "{}", "[red]", "a=b=c", ":", "x:", ":x"),
    *("own.py:", "own.py:none", "none.py:x", "os:getcwd"),
    *("'; ls #", '"', "a\nrm -rf x", "a\rb", "\x1b[31mred", "\x07", "\u2028", "\udc80", "\u202e"),
]


@dataclass
class Case:
    argv: list[str]
    files: dict[str, bytes] = field(default_factory=dict)
    """name -> content, written before the command runs."""


def command_line(choice: random.Random) -> Case:
    """A command with flags: most of them its own, with values from valid to absurd."""
    words, arguments = any_command(choice)
    for _ in range(choice.choice([0, 1, 1, 2, 2, 3, 4, 6])):
        words += flag_with_value(choice, choice.choice(arguments)) if arguments else [nonsense(choice)]
    if choice.random() < 0.1:
        words.insert(choice.randrange(len(words) + 1), nonsense(choice))
    if choice.random() < 0.05 and words:
        del words[choice.randrange(len(words))]
    if choice.random() < 0.05:
        words += words[1:]
    return Case(words)


def any_command(choice: random.Random) -> tuple[list[str], list[Flag]]:
    kind: Any = Gradsync
    words: list[str] = []
    while known := getattr(kind, "actions", None):
        if choice.random() < 0.02:
            return [*words, nonsense(choice)], []
        name = choice.choice([*known, *("train", "study") * (not words)])
        words, kind = [*words, name], known[name]
    return words, list(flags_of(kind))


def flag_with_value(choice: random.Random, argument: Flag) -> list[str]:
    if argument.is_positional:
        return [value_of(choice, argument)]
    name = choice.choice(argument.spellings)
    if choice.random() < 0.03:
        name = name[:-1] + choice.choice("xe-_=")
    if argument.kind is bool:
        return [name] if choice.random() < 0.9 else [f"{name}={value_of(choice, argument)}"]
    values = [value_of(choice, argument) for _ in range(choice.choice([1, 1, 2]) if takes_several(argument) else 1)]
    if choice.random() < 0.03:
        return [name]
    if argument.name == "options" and choice.random() < 0.7:
        return [f"{name}.{values[0]}", *values[1:]]
    return [f"{name}={','.join(values)}"] if choice.random() < 0.3 else [name, *values]


def takes_several(argument: Flag) -> bool:
    return get_origin(argument.kind) in (tuple, dict)


def value_of(choice: random.Random, argument: Flag) -> str:
    if choice.random() < 0.3:
        return nonsense(choice)
    of_type = [text for kind in argument.kinds for text in BY_TYPE.get(kind, map(str, get_args(kind)))]
    return choice.choice(GOOD.get(argument.name) or of_type or ["x"])


def nonsense(choice: random.Random) -> str:
    return choice.choice(ALMOST) if choice.random() < 0.5 else choice.choice(ABSURD)


def config_file(choice: random.Random) -> Case:
    """A config or study file with something wrong, in its values or in its bytes."""
    command = choice.choice(["train", "compare", "study"])
    form = "toml" if command == "study" else choice.choice(["toml", "json"])
    path = f"some.{form}"
    known = {**SETTINGS, **({} if command == "train" else SEVERAL), **(OF_STUDIES if command == "study" else {})}
    settings = dict(choice.sample(list(known.items()), choice.randrange(len(known))))
    if command == "study":
        settings["study"] = choice.choice([f'"{name}"' for name in STUDIES] + ["3", "[]", '"none"'])
    for name in choice.sample([*known, "none", *OF_STUDIES], choice.randrange(3)):
        settings[name] = choice.choice(WRONG)
    if "options" in settings and form == "json":
        settings["options"] = settings["options"].replace("=", ":")
    written = [f'"{name}": {value}' if form == "json" else f"{name} = {value}" for name, value in settings.items()]
    text = "{" + ", ".join(written) + "}" if form == "json" else "\n".join(written)
    if command == "study" and choice.random() < 0.5:
        text += f"\n[vary]\n{choice.choice(['lr', 'epochs', 'none', 'workers'])} = {choice.choice(WRONG)}"
    content = text.encode(errors="surrogatepass")
    content = garbled(choice, content) if choice.random() < 0.3 else content
    words = ["study", path] if command == "study" else [command, "--config", path]
    return Case(words, {path: content})


SETTINGS = {
    "model": '"logistic"',
    "workers": "2",
    "batch-size": "24",
    "lr": "0.1",
    "seed": "3",
    "steps": "2",
    "data": '"synthetic"',
    "options": '{"bucket-mb" = 3}',
    "decay_epochs": "[1, 2]",
    "epochs": "1",
    "out": '"here"',
    "inject": '"rank=0,where=data,ms=1"',
    "measure": "false",
    "train-samples": "64",
}
SEVERAL = {"strategies": '["local", "ddp"]', "workers": "[1, 2]"}
OF_STUDIES = {"batch-sizes": "[8, 16]", "repeat": "2", "servers": "1", "hosts": '["a", "b"]', "cpus": "1"}
NUMBERS = ("0", "-1", "1.5", "1e308", "-1e308", "nan", "inf", "NaN", "-Infinity", "1000000000")
WRONG = [
    *NUMBERS,
    *(f"[{number}]" for number in NUMBERS),
    *("9" * 30, "9" * 5000, "0x" + "f" * 5000, "[" * 50 + "]" * 50, "[" * 5000, "[" + "1, " * 2000 + "1]"),
    *("true", "null", "[]", "{}", "[[]]", "[1, [2]]", '["a", 1]', '["x"]', "[true]", '{"a": {}}', "{a = 1}"),
    *('""', '"x"', '"a\\nb"', '"\\u0000"', '"\\ud800"', '"own.py:net"', f'"{"a" * 5000}"', "'", "\ud800"),
    *("1979-05-27", "07:32:00", "= =", "logistic", "\n[x"),
]


def garbled(choice: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(choice.randrange(1, 5)):
        place = choice.randrange(len(data) + 1)
        what = choice.randrange(5)
        if what == 0:
            data[place : place + choice.randrange(1, 9)] = b""
        elif what == 1:
            data[place:place] = bytes(choice.choices(range(256), k=choice.randrange(1, 5)))
        elif what == 2:
            data[place:place] = choice.choice([b"\xff\xfe", b"\xef\xbb\xbf", b"\0", b"\n", b"[[", b'"', b"=", b"\r"])
        elif what == 3:
            data[place:] = b""
        else:
            data += data[place:]
    return bytes(data)
