"""The commands that make many runs and show them together: studies, and published reports again."""

from __future__ import annotations

import json
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from gradsync.commands import Reproduce, StudyRuns
from gradsync.config import RunConfig
from gradsync.errors import InputError
from gradsync.record import Run
from gradsync.study import Reproduction, published
from gradsync.study.carry_out import IsNeedless, Kept, carry_out, held, prepare, study_folder
from gradsync.study.settings import Study, with_known_options


def study(command: StudyRuns[Study]) -> int:
    config = command.run
    plan = config.repeated(with_options(config.plan()))
    check_all(plan)
    folder = study_folder(config.out, config.folder or config.name)
    runs = make(config, folder, plan, typed(), command.json, config.is_needless, lambda _: config.own_processes)
    if command.json:
        print(json.dumps(as_json(config, runs, folder), indent=2))
    else:
        show(config, runs, folder)
    return ended(runs, len(plan))


def typed() -> str:
    return shlex.join(["gradsync", *sys.argv[1:]])


def make(
    what: Study | Reproduction,
    folder: Path,
    plan: Sequence[RunConfig],
    command: str,
    quiet: bool,
    is_needless: IsNeedless,
    own_processes: Callable[[RunConfig], bool],
) -> list[Run]:
    """The runs of the plan under one display; then what failed."""
    from gradsync.report.console import make_console
    from gradsync.report.study_progress import WatchStudy
    from gradsync.report.summary import failure_text

    with held(folder):
        plan = prepare(folder, what.name, asdict(what), command, plan)
        kept = Kept(folder, finish=True)
        for error in kept.unreadable:
            print(f"left aside: {error}", file=sys.stderr, flush=True)
        missing = [item.to_dict() for item in plan if not kept.find(item.to_dict())]
        with WatchStudy(make_console(quiet), missing, len(plan)) as watch:
            runs = carry_out(folder, plan, watch, is_needless, own_processes)
    for run in runs:
        if run.status != "completed" and not run.out_of_memory:
            print(failure_text(run), file=sys.stderr, flush=True)
    return runs


def ended(runs: Sequence[Run], planned: int) -> int:
    """The exit code. An interrupted study says how to go on."""
    if stopped := next((run.stopped_by for run in runs if run.stopped_by), None):
        done = sum(run.status == "completed" for run in runs)
        print(f"stopped: {done} of {planned} runs are finished; the same command goes on from here.", file=sys.stderr)
        raise KeyboardInterrupt(stopped)
    return int(any(run.status != "completed" and not run.out_of_memory for run in runs))


def with_options(plan: Sequence[RunConfig]) -> list[RunConfig]:
    """Options go to the strategies that have them."""
    from gradsync.strategies import option_types

    names = {config.resolved().strategy or "" for config in plan}
    return with_known_options(plan, {name: set(option_types(name)) for name in names})


def check_all(plan: Sequence[RunConfig]) -> None:
    """Everything that can be refused is, before the first process starts. Data is read once for all runs on it."""
    from gradsync.check import check

    def data_and_model(config: RunConfig) -> list[str]:
        return list(map(str, (config.model, config.norm, config.data)))

    def samples(config: RunConfig) -> float:
        return min(config.train_samples or math.inf, config.test_samples or math.inf)

    for _, group in groupby(sorted(plan, key=data_and_model), data_and_model):
        check(sorted(group, key=samples))


def show(what: Study | Reproduction, runs: Sequence[Run], folder: Path, most: int | None = None) -> None:
    """Tables and sentences here, of the first ``most`` sections; everything in the report."""
    from gradsync.report.console import make_console
    from gradsync.report.exhibits import draw

    console = make_console(json=False)
    for section in what.sections(runs)[:most]:
        draw(section, console)
    if isinstance(what, Reproduction):
        console.print(f"\n{what.title}: {what.summary(runs)[0]}", markup=False, highlight=False, soft_wrap=True)
    console.print(str(folder), markup=False, soft_wrap=True)
    if path := page(runs, folder):
        console.print(str(path), markup=False, soft_wrap=True)


def as_json(what: Study | Reproduction, runs: Sequence[Run], folder: Path) -> dict[str, Any]:
    from gradsync.report.plain_data import plain_section

    path = page(runs, folder)
    return {
        "study": what.name,
        "folder": str(folder),
        "report": str(path) if path else None,
        "sections": [plain_section(section) for section in what.sections(runs)],
    }


def page(runs: Sequence[Run], folder: Path) -> Path | None:
    """None after an interruption, when nobody wants to wait for it."""
    from gradsync.cli_report import write_beside

    return None if not runs or any(run.stopped_by for run in runs) else write_beside(folder, [folder])


def reproduce(command: Reproduce) -> int:
    names = published.NAMES if command.all else command.reports
    if command.list or not names:
        return list_reports(command)
    if command.all and command.reports:
        raise InputError("you named reports and set --all: give one of them.")
    if command.only and len(names) > 1:
        raise InputError("--only chooses tables and figures of one report: name one.")
    wanted = [reproduction(name, command) for name in names]
    for item in wanted:
        check_all(item.plan())
    found = [reproduce_one(item, command, len(wanted) > 1) for item in wanted]
    if command.json:
        each = [as_json(item, runs, folder_of(item, command)) for item, (_, runs) in zip(wanted, found, strict=True)]
        print(json.dumps(each if len(each) > 1 else each[0], indent=2))
    return max(code for code, _ in found)


def reproduction(name: str, command: Reproduce) -> Reproduction:
    """With what is here: real data, a GPU, and the right to make nodes."""
    import torch

    from gradsync.data import FILE_SETS, data_folder

    here = [name for name, files in FILE_SETS.items() if files.locate(data_folder())]
    return Reproduction(
        report=name,
        scale=command.scale,
        only=command.only,
        real_data=tuple(here),
        emulated=command.cluster,
        gpu=torch.cuda.is_available(),
        steps=command.steps,
    )


def reproduce_one(what: Reproduction, command: Reproduce, one_of_several: bool) -> tuple[int, list[Run]]:
    folder = folder_of(what, command)
    plan, words = what.plan(), again(what, command)
    runs = make(what, folder, plan, words, command.json, lambda config, done: False, what.needs_own_processes)
    if not command.json:
        show(what, runs, folder, most=1 if one_of_several else None)
    return ended(runs, len(plan)), runs


def folder_of(what: Reproduction, command: Reproduce) -> Path:
    return study_folder(command.out, f"{what.report}-{what.scale}")


def again(what: Reproduction, command: Reproduce) -> str:
    """The command for this report alone."""
    words = ["gradsync", "reproduce", what.report, "--scale", what.scale]
    words += ["--only", *what.only] if what.only else []
    words += ["--steps", str(what.steps)] if what.steps else []
    words += ["--out", command.out] if command.out != Reproduce().out else []
    return shlex.join([*words, *([] if command.cluster else ["--no-cluster"])])


def list_reports(command: Reproduce) -> int:
    from gradsync.report.console import make_console
    from gradsync.report.exhibits import drawn
    from gradsync.report.plain_data import plain_exhibit
    from gradsync.study.listing import listing

    table = listing(Path(command.out))
    if command.json:
        print(json.dumps(plain_exhibit(table), indent=2))
    else:
        make_console(json=False).print(drawn(table))
    return 0
