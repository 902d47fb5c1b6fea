"""The researcher's kit: does a strategy do what a strategy must?"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from gradsync.config import objects
from gradsync.library.runs import given
from gradsync.library.runs.calls import refuse_stopped
from gradsync.library.runs.check import inform
from gradsync.library.runs.nodes import on_nodes
from gradsync.library.runs.studies import checked, made
from gradsync.live.display import Display
from gradsync.live.notebook import in_notebook
from gradsync.record import Run
from gradsync.record.certificate import read_certificate
from gradsync.strategies import Strategy
from gradsync.study.verify import VerifyStudy

__all__ = ["Conformance", "conforms"]

WIDTH = 118


class Conformance:
    """True if everything holds. Its table says what does and what does not."""

    def __init__(self, study: VerifyStudy, runs: Sequence[Run]) -> None:
        self.holds = study.passes(runs) and any(read_certificate(run.folder) for run in runs)
        self.checks = [check for run in runs if (found := read_certificate(run.folder)) for check in found.checks]
        """Each thing that was checked, on each number of workers."""

        self._sections = [section for section in study.sections(runs) if section.exhibits]
        self._failures = [run.error.traceback.rstrip() for run in runs if run.error and run.error.traceback]

    @property
    def failed(self) -> list[str]:
        """The names of the checks that do not hold, each once."""
        return list(dict.fromkeys(check.name for check in self.checks if check.holds is False))

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        """The tables as text."""
        from gradsync.draw.terminal import draw

        text = io.StringIO()
        console = Console(file=text, width=WIDTH, markup=False, emoji=False, highlight=False, color_system=None)
        for section in self._sections:
            draw(section, console)
        return "\n".join([text.getvalue().strip("\n"), *self._failures])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from gradsync.draw.html.fragment import fragment

        return fragment(self._sections, self._failures)


def conforms(
    strategy: str | type[Strategy], *others: str | type[Strategy], progress: bool = False, **settings: Any
) -> Conformance:
    """Run the conformance test on a strategy, print what holds, and return it: ``assert conforms(MySync)``.

    ``strategy``: a class, a name, or file.py:Class. The settings are those of ``gradsync verify``, with underscores;
    by default two and three workers train logistic regression in float64, in a temporary folder (``out`` keeps it).
    Nothing is raised if something does not hold; ``InputError`` if what was given is no strategy.
    """
    for each in (strategy, *others):
        if not isinstance(each, str):
            given.as_strategy(each)
    with objects.forgotten_afterwards(), tempfile.TemporaryDirectory(prefix="gradsync-") as place:
        asked = {"workers": (2, 3), "out": place, **settings, "strategies": [strategy, *others]}
        study = on_nodes(VerifyStudy(**given.settings_of(VerifyStudy, asked, "gradsync.testing.conforms")))
        inform(study)
        display = Display(progress)
        runs = made(study, checked(study), "gradsync.testing.conforms(...)", display.console, display.of_study())
        refuse_stopped(runs)
        found = Conformance(study, [run for run in runs if isinstance(run, Run)])
    if not in_notebook():
        print(found)
    return found
