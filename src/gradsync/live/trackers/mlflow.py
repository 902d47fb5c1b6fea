"""A run in MLflow: rank 0's series and those in which the other ranks differ, in one run."""

from __future__ import annotations

import getpass
import importlib.util
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

# Before mlflow is imported. It refuses its own file store unless that is asked for, and reports its use over the
# network unless it is told not to.
os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")

from mlflow import get_tracking_uri
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from gradsync.live.trackers.base import Point, Scalars, Settings, Status, figures_of, flat, remarks_of
from gradsync.live.trackers.one_run import OneRun

STATUS = {"completed": "FINISHED", "failed": "FAILED", "killed": "KILLED"}
MOST_METRICS, MOST_PARAMS = 1000, 100  # in one request
LONGEST_PARAM, LONGEST_TAG = 500, 5000
NOT_IN_A_NAME = re.compile(r"[^\w\-. /:]")

Item = TypeVar("Item")


class MlflowRun:
    """Settings are params, events and remarks tags, the numbers of the summary metrics."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._settings = settings
        self._all_ranks = OneRun()
        self._client = MlflowClient(tracking_uri())
        self._events: list[str] = []
        self._step = 0  # the last one
        tags = {"mlflow.source.name": "gradsync", "mlflow.user": user(), "folder": str(folder.resolve())}
        run = self._client.create_run(experiment(self._client), run_name=folder.name, tags=tags)
        self._run = run.info.run_id
        params = [Param(name, str(value)[:LONGEST_PARAM]) for name, value in flat(settings, ".").items()]
        for some in pieces(params, MOST_PARAMS):
            self._client.log_batch(self._run, params=some)

    def log(self, points: Sequence[Point]) -> None:
        metrics = []
        for step, values in self._all_ranks.steps(points):
            self._step = max(self._step, step)
            metrics += metrics_of(values, step)
        for some in pieces(metrics, MOST_METRICS):
            self._client.log_batch(self._run, metrics=some)

    def event(self, step: int, text: str) -> None:
        """All events so far; the last ones, if these are too many."""
        self._events.append(text)
        self._client.set_tag(self._run, "events", "\n".join(self._events)[-LONGEST_TAG:])

    def end(self, status: Status, summary: Mapping[str, Any]) -> None:
        tags = [RunTag(name, text[:LONGEST_TAG]) for name, text in remarks_of(status, summary).items()]
        metrics = metrics_of(figures_of(summary, self._settings), self._step)
        self._client.log_batch(self._run, metrics=metrics, tags=tags)
        self._client.set_terminated(self._run, STATUS[status])


def tracking_uri() -> str:
    """What MLflow itself would take: MLFLOW_TRACKING_URI, else mlflow.db or mlruns in the current folder.

    mlflow-skinny has no database: then it is mlruns.
    """
    uri = get_tracking_uri()
    if uri.startswith("sqlite:") and importlib.util.find_spec("sqlalchemy") is None:
        return Path("mlruns").resolve().as_uri()
    return uri


def experiment(client: MlflowClient) -> str:
    """The one that MLflow's environment variables name, else gradsync, which is made if there is none."""
    if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
        return number
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "gradsync")
    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name)
        except MlflowException:  # another run has made it meanwhile
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return found.experiment_id


def metrics_of(values: Scalars, step: int) -> list[Metric]:
    now = int(time.time() * 1000)
    return [Metric(NOT_IN_A_NAME.sub("_", name), value, now, step) for name, value in values.items()]


def pieces(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    for begin in range(0, len(items), most):
        yield items[begin : begin + most]


def user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return "unknown"
