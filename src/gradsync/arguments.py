"""From the words on the command line to a command object: lists with commas, options, a config file under flags."""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from pathlib import Path
from typing import Annotated, Any, Union

import tyro
from tyro.conf import OmitArgPrefixes, subcommand

from gradsync.commands import (
    Cluster,
    Compare,
    Data,
    Exec,
    Finish,
    Probe,
    Report,
    Reproduce,
    Show,
    Studies,
    StudyRuns,
    Trace,
    Train,
    Verify,
)
from gradsync.config import ALTERNATIVES, RunConfig, Settings, read_file, read_values, settings_in
from gradsync.errors import InputError, unknown
from gradsync.refused import explain
from gradsync.study import STUDIES, Study
from gradsync.study.compare import CompareConfig
from gradsync.values import flag, shown

DESCRIPTION = "Train a model data-parallel under any way of agreeing on gradients, and see what each costs."

SAME = {"--ntasks-per-node": "--workers-per-node"}  # Slurm's

# Flags that take several values.
OF_RUNS = ("--decay-epochs", "--hosts")
LISTS = {
    "train": (*OF_RUNS, "--columns"),
    "compare": (*OF_RUNS, "--columns", "--strategies", "--workers"),
    "probe": ("--transport", "--operations", "--sizes", "--hosts"),
    "reproduce": ("--only",),
    "show": ("--columns",),
    "study": (
        *OF_RUNS,
        *("--strategies", "--workers", "--batch-sizes", "--modes", "--node-counts", "--per-node", "--remedies"),
    ),
    "verify": (*OF_RUNS, "--strategies", "--workers", "--servers", "--transport"),
}


def parse(argv: list[str]) -> Any:
    """Arguments to a command object; a --config file gives the defaults that flags then replace."""
    argv, words = command_for_node(argv)
    argv = split_lists(join_options(renamed(argv)))
    defaults: dict[str, Any] = {"train": Train(), "compare": Compare()}
    file_options: dict[str, str] = {}
    if argv[:1] == ["study"] and len(argv) > 1 and argv[1].endswith(".toml"):
        return study_from_file(Path(argv[1]), argv[2:])
    if argv and argv[0] in defaults and (file := config_file(argv)):
        kind: type[Settings] = RunConfig if argv[0] == "train" else CompareConfig
        values = without_replaced(read_file(file, kind), argv)
        defaults[argv[0]].run = kind(**values)
        # tyro reads --options only where the default is empty: the file's are put back below the flags'.
        file_options, defaults[argv[0]].run.options = defaults[argv[0]].run.options, {}
    command = read(commands(**defaults), argv, prog="gradsync", description=DESCRIPTION)
    if isinstance(command, Studies):
        command = command.action
    if isinstance(command, (Train, Compare)):
        command.run.options = file_options | command.run.options
    if isinstance(command, Cluster) and isinstance(command.action, Exec):
        command.action.words = words
    return command


def commands(train: Train, compare: Compare) -> Any:
    """Every command, with the settings that two of them begin with."""
    return Union[  # noqa: UP007 - built at run time
        Annotated[Train, subcommand("train", default=train)],
        Annotated[Compare, subcommand("compare", default=compare)],
        Annotated[Finish, subcommand("finish")],
        Annotated[Studies, subcommand("study")],
        Annotated[Reproduce, subcommand("reproduce")],
        Annotated[Report, subcommand("report")],
        Annotated[Verify, subcommand("verify")],
        Annotated[Probe, subcommand("probe")],
        Annotated[Show, subcommand("show")],
        Annotated[Trace, subcommand("trace")],
        Annotated[Data, subcommand("data")],
        Annotated[Cluster, subcommand("cluster")],
    ]


def read(kind: Any, argv: list[str], prog: str, **more: Any) -> Any:
    """What the words say. What tyro refuses is told in a sentence instead of its box."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(kind, args=argv, prog=prog, config=(OmitArgPrefixes,), **more)
    except SystemExit as end:
        if not end.code:  # --help
            raise
    raise explain(argv, kind, prog, said.getvalue())


def study_from_file(path: Path, argv: list[str]) -> StudyRuns[Any]:
    own = study_in(path, argv)
    options, own.options = own.options, {}
    kind: Any = StudyRuns[type(own)]  # type: ignore[misc] # known at run time
    default = StudyRuns(run=own)
    prog = f"gradsync study {path}"
    command = read(kind, argv, prog=prog, default=default)
    command.run.options = options | command.run.options
    return command


def study_in(path: Path, argv: list[str]) -> Study:
    """A grid of the user's own: settings, and [vary] with lists of values; or another study, with its settings."""
    values = read_values(path)
    name = values.pop("study", "sweep")
    if not isinstance(name, str) or name not in STUDIES:
        raise unknown(f"study in {path}:", shown(name), STUDIES)
    if name == "sweep":
        varied = values.pop("vary", {})
        if not isinstance(varied, dict) or not all(isinstance(items, list) for items in varied.values()):
            raise InputError(f"{path}: [vary] must be a table of lists, for instance lr = [0.01, 0.1].")
        if varied:
            values["vary"] = [f"{key}={','.join(map(text_of, items))}" for key, items in varied.items()]
    settings = {"folder": path.stem, **settings_in(values, path, STUDIES[name])}
    return STUDIES[name](**without_replaced(settings, argv))


def text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def command_for_node(argv: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """What stands behind -- is not ours to read: gradsync cluster exec lab node2 -- COMMAND ..."""
    if argv[:2] != ["cluster", "exec"] or "--" not in argv:
        return argv, ()
    end = argv.index("--")
    return argv[:end], tuple(argv[end + 1 :])


def renamed(argv: list[str]) -> list[str]:
    """Other programs' names for the same."""
    found = []
    for item in argv:
        name, equals, value = item.partition("=")
        found.append(f"{SAME.get(name.replace('_', '-'), name)}{equals}{value}")
    return found


def join_options(argv: list[str]) -> list[str]:
    """``--options.bucket-mb 25`` for each option becomes one ``--options bucket-mb 25 ...``, as tyro reads it."""
    rest: list[str] = []
    options: list[str] = []
    items = iter(argv)
    for item in items:
        if not item.startswith("--options."):
            rest.append(item)
            continue
        name, equals, value = item.removeprefix("--options.").partition("=")
        if not equals:
            value = next(items, "--")
        if value.startswith("--"):
            raise InputError(f"--options.{name} needs a value: --options.{name} VALUE.")
        options += [name, value]
    return [*rest, "--options", *options] if options else rest


def split_lists(argv: list[str]) -> list[str]:
    """``verify --workers 2,3,4`` is the same as ``--workers 2 3 4``; likewise --strategies."""
    lists = LISTS.get(argv[0] if argv else "", ())
    found: list[str] = []
    folders: list[str] = []  # of show, after a list with commas: put before it, or the flag would take them too
    inside = whole = False
    for item in argv:
        name, equals, value = item.partition("=")
        if item.startswith("--"):
            inside, whole = name in lists, bool(equals)
            found += [name, *value.split(",")] if inside and equals else [item]
        elif inside and whole and argv[0] == "show":
            folders.append(item)
        else:
            found += [part for part in item.split(",") if part] if inside else [item]
            whole = "," in item
    return [*found[:1], *folders, *found[1:]]


def config_file(argv: list[str]) -> Path | None:
    for index, item in enumerate(argv):
        if item == "--config" and index + 1 < len(argv):
            return Path(argv[index + 1])
        if item.startswith("--config="):
            return Path(item.removeprefix("--config="))
    return None


def without_replaced(values: dict[str, Any], argv: list[str]) -> dict[str, Any]:
    """A flag replaces the other way of saying the same in the file: --steps replaces epochs."""
    given = {item.split("=")[0].replace("_", "-") for item in argv}
    for one, other in ALTERNATIVES:
        if flag(one) in given:
            values.pop(other, None)
        if flag(other) in given:
            values.pop(one, None)
    return values
