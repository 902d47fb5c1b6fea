"""Any setting over any values: one table, and a chart for every setting that is a number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal

from gradsync.config import RunConfig
from gradsync.config.objects import name_of
from gradsync.config.values import listed, parsed, types_of
from gradsync.errors import InputError, unknown
from gradsync.exhibit.cases import STRATEGY, WORKERS, case_table
from gradsync.exhibit.columns import axis, heights
from gradsync.exhibit.form import Axis, Chart, Column, Mark, Section, Table, is_wide
from gradsync.exhibit.remarks import one_run_each
from gradsync.figures.cases import Case, cases, way_of
from gradsync.figures.catalogue.of_learning import ACCURACY, TEST_LOSS, TRAIN_LOSS
from gradsync.figures.catalogue.of_time import SAMPLES, STEP, TRAIN
from gradsync.figures.figure import Figure
from gradsync.figures.metrics import metric_figure, metrics_of
from gradsync.figures.noise import is_chance
from gradsync.figures.value import Value, mean_of
from gradsync.record import Run
from gradsync.study.making.several import SettingsStudy

NOT_VARIED = ("out", "seed", "options", "model_options", "metric", "sbatch", "hosts", "decay_epochs")
OPTION = "options."  # before the name of an option of the strategy


@dataclass(kw_only=True)
class Sweep(SettingsStudy):
    """All combinations of any settings: --vary lr=0.01,0.1 options.bucket-mb=5,25."""

    vary: tuple[str, ...] = ("lr=0.001,0.01,0.1",)
    """What to vary: the name of a setting, or of an option of the strategy as options.bucket-mb, and its values with
    commas between them."""

    model: str = "logistic"
    """vgg11, resnet18, alexnet, mnist-cnn, logistic, gpt, or your own as package.module:function or
    file.py:function."""

    name: ClassVar[str] = "sweep"
    title: ClassVar[str] = "Sweep over settings"

    def values_of(self) -> dict[str, list[Any]]:
        """Setting -> values."""
        found = {}
        for text in self.vary:
            name, equals, values = text.partition("=")
            each = [value_from(setting_name(name), value) for value in dict.fromkeys(listed(values))]
            if not equals or not each:
                raise InputError(f"--vary {text}: it must be a setting and its values, for instance lr=0.01,0.1.")
            found[setting_name(name)] = each
        if not found:
            raise InputError("--vary is empty: name a setting and its values, for instance --vary lr=0.01,0.1.")
        return found

    @property
    def runs_at_most(self) -> int:
        texts = max(1, len(self.vary))  # which the inherited count takes for values
        return super().runs_at_most // texts * math.prod(map(len, self.values_of().values()))

    @property
    def numbers(self) -> tuple[int | None, ...]:
        """A varied option needs a strategy: two workers by default, as the default for one worker is local."""
        varies_options = any(name.startswith(OPTION) for name in self.values_of())
        return self.workers or ((2,) if varies_options and not self.strategies else (None,))

    def plan(self) -> list[RunConfig]:
        varied = self.values_of()
        return [
            self.run(**{"strategy": strategy, "workers": workers} | self.changes(zip(varied, values, strict=True)))
            for strategy in self.ways
            for workers in self.numbers
            for values in itertools.product(*varied.values())
        ]

    def changes(self, varied: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """Keyword arguments of a run: varied options override those that all runs share."""
        found: dict[str, Any] = {"options": dict(self.options)}
        for name, value in varied:
            (found["options"] if name.startswith(OPTION) else found)[name.removeprefix(OPTION)] = value
        return found

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        names = list(self.values_of())
        return [Section("Sweep", [table(found, names), *charts(found, names)], list(sentences(found, names)))]


def setting_name(text: str) -> str:
    typed = text.strip().removeprefix("--")
    if typed.startswith(OPTION) and typed != OPTION:
        return typed.replace("_", "-")
    name = typed.replace("-", "_")
    known = [item.name for item in fields(RunConfig) if item.name not in NOT_VARIED]
    if name not in known:
        raise unknown("setting", text.strip(), [item.replace("_", "-") for item in known])
    return name


def value_from(name: str, text: str) -> Any:
    """A value in the type its setting has. An option's stays text: the strategy knows its type."""
    try:
        return text if name.startswith(OPTION) else parsed(text, types_of(RunConfig)[name])
    except ValueError:
        raise InputError(f"--vary {name}: {text!r} is not a valid value.") from None


def setting_of(case: Case, name: str) -> Any:
    """An option that reads like a number is drawn as one."""
    if not name.startswith(OPTION):
        return case.setting[name]
    text = case.setting["options"].get(name.removeprefix(OPTION))
    return None if text is None else parsed(text, int | float | str)


def value_of(case: Case, name: str) -> Value:
    value = setting_of(case, name)
    if isinstance(value, bool):
        return str(value).lower()
    return name_of(value) if isinstance(value, str) else value


def table(found: Sequence[Case], names: Sequence[str]) -> Table:
    varied = [
        (
            Column(name.replace("_", " "), form="g" if is_number(found, name) else ""),
            partial(value_of, name=name),
        )
        for name in names
    ]
    beside = {name: fact for name, fact in (STRATEGY | WORKERS).items() if name not in names}
    told = [(Column(name), fact) for name, fact in beside.items()]
    title = f"Runs by {' and '.join(name.replace('_', ' ') for name in names)}"
    return case_table(title, found, {}, [*varied, *told, *FIGURES])


FIGURES = (STEP, SAMPLES, TRAIN, TRAIN_LOSS, TEST_LOSS, ACCURACY)


def metrics_in(found: Sequence[Case]) -> list[Figure]:
    """Of the tests of these runs."""
    return [metric_figure(name) for name in metrics_of(case.figures for case in found)]


def is_number(found: Sequence[Case], name: str) -> bool:
    return all(
        isinstance(value, (int, float)) and not isinstance(value, bool)
        for value in (setting_of(case, name) for case in found)
    )


def charts(found: Sequence[Case], names: Sequence[str]) -> Iterator[Chart]:
    """Charts over the first setting; the others, and the strategy, are series."""
    done = [case for case in found if case.completed]
    x_name, *others = names
    if len({setting_of(case, x_name) for case in done}) < 2:
        return
    rows: list[Mark] = []
    metrics = metrics_in(done)
    for case in done:
        parts = [f"{name.replace('_', ' ')} {value_of(case, name)}" for name in others]
        parts += [way_of(case, done)] if len({way_of(other, done) for other in done}) > 1 or not parts else []
        rows.append(
            {
                "x": setting_of(case, x_name) if is_number(found, x_name) else str(value_of(case, x_name)),
                **heights(case, *metrics, TRAIN),
                "series": ", ".join(parts),
            }
        )
    values = [row["x"] for row in rows if isinstance(row["x"], (int, float))]
    x = Axis("x", x_name.replace("_", " "), log=len(values) == len(rows) and is_wide(values), zero=False)
    kind: Literal["lines", "bars"] = "lines" if values else "bars"
    for metric in metrics:
        if all(row[metric.name] is not None for row in rows):
            yield Chart(f"{metric.title.capitalize()} by {x.title}", kind, rows, x, axis(metric), "series")
    yield Chart(f"Time by {x.title}", kind, rows, x, axis(TRAIN), "series")


def sentences(found: Sequence[Case], names: Sequence[str]) -> Iterator[str]:
    for metric in metrics_in(found):
        tested = [case for case in found if case.value(metric) is not None]
        if len(tested) > 1 and metric.better:
            yield best_of(tested, names, metric)
            yield from one_run_each(tested)
    for case in found:
        if not case.completed:
            yield f"{chosen(case, names)}: {case.remark}."


def best_of(tested: Sequence[Case], names: Sequence[str], metric: Figure) -> str:
    """Which setting is the best by a metric, and whether the next one is within the uncertainty."""

    def reached(case: Case) -> float:
        return mean_of(case.value(metric)) or 0.0

    best, second, *_ = sorted(tested, key=reached, reverse=metric.better == "higher")
    if len(set(map(reached, tested))) == 1:
        return f"All {len(tested)} reach the same {metric.title}, {metric.text(reached(best))}."
    text = f"The best {metric.title} is {metric.text(reached(best))}, with {chosen(best, names)}"
    if is_chance(best, second, metric):
        return f"{text}; {metric.text(reached(second))} with {chosen(second, names)} is within its uncertainty."
    return f"{text}."


def chosen(case: Case, names: Sequence[str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value_of(case, name)}" for name in names)
