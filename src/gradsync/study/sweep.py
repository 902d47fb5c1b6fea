"""Any setting over any values: one table, and a chart for every setting that is a number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from gradsync.config import RunConfig
from gradsync.errors import InputError, unknown
from gradsync.exhibit import Axis, Chart, Column, Section, Table, Value, mean_of
from gradsync.record import Run
from gradsync.study.cases import (
    Case,
    accuracy,
    cases,
    remarks,
    samples_per_second,
    seconds_per_step,
    test_loss,
    train_loss,
    train_seconds,
    way_of,
    with_remark,
)
from gradsync.study.settings import Study
from gradsync.values import fits

NOT_VARIED = ("out", "seed", "options", "sbatch", "hosts", "decay_epochs")


@dataclass(kw_only=True)
class Sweep(Study):
    """Any settings over any values, all combinations: --vary lr=0.01,0.1 epochs=1,5,10."""

    vary: tuple[str, ...] = ("lr=0.001,0.01,0.1",)
    """What to vary: the name of a setting, and its values with commas between them."""

    model: str = "logistic"
    """vgg11, resnet18, alexnet, mnist-cnn, logistic, or your own as package.module:function or file.py:function."""

    name: ClassVar[str] = "sweep"
    title: ClassVar[str] = "Sweep over settings"

    def values_of(self) -> dict[str, list[Any]]:
        """Setting -> values."""
        found = {}
        for text in self.vary:
            name, equals, values = text.partition("=")
            each = [parsed(setting_name(name), value) for value in dict.fromkeys(values.split(",")) if value]
            if not equals or not each:
                raise InputError(f"--vary {text}: it must be a setting and its values, for instance lr=0.01,0.1.")
            found[setting_name(name)] = each
        if not found:
            raise InputError("--vary is empty: name a setting and its values, for instance --vary lr=0.01,0.1.")
        return found

    @property
    def runs_at_most(self) -> int:
        texts = max(1, len(self.vary))  # counted as values by the others
        return super().runs_at_most // texts * math.prod(map(len, self.values_of().values()))

    def plan(self) -> list[RunConfig]:
        varied = self.values_of()
        return [
            self.run(**{"strategy": strategy, "workers": workers} | dict(zip(varied, values, strict=True)))
            for strategy in self.ways
            for workers in self.numbers
            for values in itertools.product(*varied.values())
        ]

    def sections(self, runs: Sequence[Run]) -> list[Section]:
        found = cases(runs)
        names = list(self.values_of())
        return [Section("Sweep", [table(found, names), *charts(found, names)], list(sentences(found, names)))]


def setting_name(text: str) -> str:
    name = text.strip().removeprefix("--").replace("-", "_")
    known = [item.name for item in fields(RunConfig) if item.name not in NOT_VARIED]
    if name not in known:
        raise unknown("setting", text.strip(), [item.replace("_", "-") for item in known])
    return name


def parsed(name: str, text: str) -> Any:
    """A value in the type its setting has."""
    hint = get_type_hints(RunConfig)[name]
    for kind in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        for value in readings(text, kind):
            if fits(value, kind):
                return value
    raise InputError(f"--vary {name}: {text!r} is no value of this setting.")


def readings(text: str, kind: Any) -> Iterator[Any]:
    """What the text may mean to a setting of this type."""
    if kind is bool:
        yield {"true": True, "false": False}.get(text.lower())
    elif kind in (int, float):
        try:
            yield kind(text)
        except ValueError:
            return
    else:
        yield text


def value_of(case: Case, name: str) -> Value:
    value = case.setting[name]
    return str(value).lower() if isinstance(value, bool) else value


def table(found: Sequence[Case], names: Sequence[str]) -> Table:
    beside = [name for name in ("strategy", "workers") if name not in names]
    columns = [
        *(Column(name.replace("_", " "), form="g" if is_number(found, name) else "") for name in names),
        *map(Column, beside),
        Column("step", "s"),
        Column("samples", "1/s", ",.0f"),
        Column("training", "s"),
        Column("training loss"),
        Column("test loss"),
        Column("accuracy", "", ".2%"),
        *remarks(found),
    ]
    rows = []
    for case in found:
        shown = {"strategy": case.figures.get("strategy"), "workers": case.figures.get("world_size")}
        row = [*(value_of(case, name) for name in names), *(shown[name] for name in beside)]
        row += [case.of(figure) for figure in FIGURES]
        rows.append(with_remark(case, columns, row))
    notes = ["training loss: mean of the last epoch; training: first step to last step, with testing between."]
    return Table(f"Runs by {' and '.join(name.replace('_', ' ') for name in names)}", columns, rows, notes)


FIGURES = (seconds_per_step, samples_per_second, train_seconds, train_loss, test_loss, accuracy)


def is_number(found: Sequence[Case], name: str) -> bool:
    return all(
        isinstance(case.setting[name], (int, float)) and not isinstance(case.setting[name], bool) for case in found
    )


def charts(found: Sequence[Case], names: Sequence[str]) -> Iterator[Chart]:
    """Over the first setting; the others, and the strategy, are series."""
    done = [case for case in found if case.completed]
    x_name, *others = names
    if len({case.setting[x_name] for case in done}) < 2:
        return
    rows: list[dict[str, str | int | float | None]] = []
    for case in done:
        parts = [f"{name.replace('_', ' ')} {value_of(case, name)}" for name in others]
        parts += [way_of(case, done)] if len({way_of(other, done) for other in done}) > 1 or not parts else []
        value = mean_of(case.of(accuracy))
        rows.append(
            {
                "x": case.setting[x_name] if is_number(found, x_name) else str(value_of(case, x_name)),
                "accuracy": None if value is None else value * 100,
                "seconds": mean_of(case.of(train_seconds)),
                "series": ", ".join(parts),
            }
        )
    values = [row["x"] for row in rows if isinstance(row["x"], (int, float))]
    wide = len(values) == len(rows) and min(values) > 0 and max(values) / min(values) >= 10
    x = Axis("x", x_name.replace("_", " "), log=wide, zero=False)
    kind: Literal["lines", "bars"] = "lines" if values else "bars"
    if all(row["accuracy"] is not None for row in rows):
        yield Chart(f"Accuracy by {x.title}", kind, rows, x, Axis("accuracy", "accuracy", "%", zero=False), "series")
    yield Chart(f"Time by {x.title}", kind, rows, x, Axis("seconds", "training", "s"), "series")


def sentences(found: Sequence[Case], names: Sequence[str]) -> Iterator[str]:
    tested = [case for case in found if case.of(accuracy) is not None]
    if len(tested) > 1:
        best = max(tested, key=lambda case: mean_of(case.of(accuracy)) or 0.0)
        chosen = ", ".join(f"{name.replace('_', ' ')} {value_of(best, name)}" for name in names)
        yield f"The best accuracy is {mean_of(best.of(accuracy)) or 0.0:.1%}, with {chosen}."
    for case in found:
        if not case.completed:
            chosen = ", ".join(f"{name.replace('_', ' ')} {value_of(case, name)}" for name in names)
            yield f"{chosen}: {case.remark}."
