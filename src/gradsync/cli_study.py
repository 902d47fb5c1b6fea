"""The command that makes many runs and shows them together."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

from gradsync.commands import StudyRuns
from gradsync.config import RunConfig
from gradsync.record import Run
from gradsync.study.carry_out import Kept, carry_out, prepare, study_folder
from gradsync.study.settings import Study, with_known_options


def study(command: StudyRuns[Study]) -> int:
    from gradsync.report.console import make_console
    from gradsync.report.study_progress import WatchStudy
    from gradsync.report.summary import failure_text

    config = command.run
    plan = config.repeated(with_options(config.plan()))
    check_all(plan)
    folder = study_folder(config.out, config.folder or config.name)
    words = shlex.join(["gradsync", *sys.argv[1:]])
    plan = prepare(folder, config.name, asdict(config), words, plan)
    console = make_console(command.json)
    kept = Kept(folder)
    missing = [item.to_dict() for item in plan if not kept.find(item.to_dict())]
    with WatchStudy(console, missing, len(plan)) as watch:
        runs = carry_out(folder, plan, watch, config.is_needless, config.own_processes)
    for run in runs:
        if run.status != "completed" and not run.out_of_memory:
            print(failure_text(run), file=sys.stderr, flush=True)
    show(command, runs, folder)
    if stopped := next((run.stopped_by for run in runs if run.stopped_by), None):
        done = sum(run.status == "completed" for run in runs)
        print(
            f"stopped: {done} of {len(plan)} runs are finished; the same command goes on from here.", file=sys.stderr
        )
        raise KeyboardInterrupt(stopped)
    return int(any(run.status != "completed" and not run.out_of_memory for run in runs))


def with_options(plan: Sequence[RunConfig]) -> list[RunConfig]:
    """Options go to the strategies that have them."""
    from gradsync.strategies import option_types

    names = {config.resolved().strategy or "" for config in plan}
    return with_known_options(plan, {name: set(option_types(name)) for name in names})


def check_all(plan: Sequence[RunConfig]) -> None:
    """Everything that can be refused is, before the first process starts."""
    from gradsync.check import check

    def data_and_model(config: RunConfig) -> list[str]:
        shared = (config.model, config.norm, config.data, config.train_samples, config.test_samples, config.seed)
        return list(map(str, shared))

    for _, group in groupby(sorted(plan, key=data_and_model), data_and_model):
        check(list(group))


def show(command: StudyRuns[Study], runs: Sequence[Run], folder: Path) -> None:
    from gradsync.report.console import make_console
    from gradsync.report.exhibits import draw

    sections = command.run.sections(runs)
    if command.json:
        found = {"study": command.run.name, "folder": str(folder), "sections": [asdict(item) for item in sections]}
        print(json.dumps(found, indent=2))
        return
    console = make_console(json=False)
    for section in sections:
        draw(section, console)
    console.print(str(folder), markup=False, soft_wrap=True)
