"""gradsync verify: the equivalence certificate."""

from __future__ import annotations

from gradsync.cli.commands import Verify
from gradsync.cli.study import carry_out_study
from gradsync.library.runs.nodes import on_nodes


def verify(command: Verify) -> int:
    from gradsync.library.runs.check import inform

    study = on_nodes(command.run)
    inform(study)
    return carry_out_study(study, command).exit_code()
