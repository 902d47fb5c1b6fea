"""gradsync reproduce: repeat published reports."""

from __future__ import annotations

import shlex
from pathlib import Path

from gradsync.cli.commands import Reproduce
from gradsync.cli.output import print_json
from gradsync.cli.study import carry_out_study
from gradsync.errors import InputError
from gradsync.library.runs.studies import checked
from gradsync.study import Reproduction
from gradsync.study.reproduce import published


def reproduce(command: Reproduce) -> int:
    names = published.NAMES if command.all else command.reports
    if command.list or not names:
        return list_reports(command)
    if command.all and command.reports:
        raise InputError("you named reports and set --all: leave one out.")
    if command.only and len(names) > 1:
        raise InputError("--only chooses tables and figures of one report: name one report.")
    if command.folder and len(names) > 1:
        raise InputError("--folder is the folder of one report: name one report, or use --out.")
    ensure_nodes(command)
    wanted = [reproduction(name, command) for name in names]
    ready = [checked(study) for study in wanted]  # all of them, before the first one starts
    most = 1 if len(wanted) > 1 else None
    found = [
        carry_out_study(study, command, again(study, command), most=most, in_list=True, ready=each)
        for study, each in zip(wanted, ready, strict=True)
    ]
    if command.json:
        print_json([each.as_json() for each in found] if len(found) > 1 else found[0].as_json())
    return max(each.exit_code() for each in found)


def ensure_nodes(command: Reproduce) -> None:
    if not command.cluster:
        return
    from gradsync.cluster import privilege

    try:
        privilege.ensure()  # while there is only one thread
    except InputError as error:
        raise InputError(f"{error} Or use --no-cluster, with plain processes on this machine.") from None


def reproduction(name: str, command: Reproduce) -> Reproduction:
    """The study with what this machine has: real data, a GPU, and emulated nodes."""
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
        repeat=command.repeat,
        folder=command.folder,
        out=command.out,
    )


def again(study: Reproduction, command: Reproduce) -> str:
    """The command that repeats this report alone."""
    words = ["gradsync", "reproduce", study.report, "--scale", study.scale]
    words += ["--only", *study.only] if study.only else []
    words += ["--steps", str(study.steps)] if study.steps else []
    words += ["--repeat", str(study.repeat)] if study.repeat > 1 else []
    words += ["--folder", study.folder] if study.folder else []
    words += ["--out", study.out] if study.out != Reproduce().out else []
    return shlex.join([*words, *([] if command.cluster else ["--no-cluster"])])


def list_reports(command: Reproduce) -> int:
    from gradsync.draw.console import make_console
    from gradsync.draw.data import plain_exhibit
    from gradsync.draw.terminal import draw
    from gradsync.study.reproduce.listing import listing

    table = listing(Path(command.out))
    if command.json:
        print_json(plain_exhibit(table))
    else:
        draw(table, make_console(json=False))
    return 0
