"""Figures of learning: losses, accuracies, updates, staleness."""

from __future__ import annotations

from gradsync.config import task
from gradsync.figures.catalogue.of_time import mean, nth
from gradsync.figures.figure import At, Figure, Formula
from gradsync.record.summaries import Test

SUMMED = 20  # steps over which one of the reports sums its losses


def models(at: At) -> float | None:
    """How many different models the ranks hold at the end, statistics of BatchNorm included."""
    return float(len({(rank.parameters_sha256, rank.buffers_sha256) for rank in at.figures.ranks}))


def test_of(at: At) -> Test | None:
    """A rank's own test where ranks have different models. Bit-identical ranks have tested a share each."""
    if at.rank is None:
        return at.figures.test
    return at.of_rank.test or (at.figures.test if models(at) == 1 else None)


def tested(metric: str) -> Formula:
    """A metric on the test set."""

    def of(at: At) -> float | None:
        test = test_of(at)
        return test.metrics.get(metric) if test else None

    return of


def trained(metric: str) -> Formula:
    """A metric over the last epoch of training."""

    def of(at: At) -> float | None:
        found = at.figures.train_metrics.get(metric)
        return found[-1] if found else None

    return of


def accuracy_deviation(at: At) -> float | None:
    """How much other test samples would change it: the deviation of a binomial share."""
    test, share = test_of(at), tested(task.ACCURACY)(at)
    return (share * (1 - share) / test.count) ** 0.5 if test and share is not None else None


def test_loss(at: At) -> float | None:
    test = test_of(at)
    return test.loss if test else None


def losses(at: At) -> list[float | None]:
    """Of the rank's own samples, before each update; rank 0's if none is named."""
    return [row["loss"] for row in at.run.steps(at.rank or 0) if "loss" in row]


def train_loss(at: At) -> float | None:
    """Mean over the last epoch, or the part of it that was trained: of all samples, or of a rank's own."""
    if at.rank is None:
        return at.figures.train_loss[-1] if at.figures.train_loss else None
    per_epoch = at.figures.steps_per_epoch or 1
    found = losses(at)
    return mean(found[(len(found) - 1) // per_epoch * per_epoch :])


def loss_sum(at: At) -> float | None:
    last = int(at.x or 0)
    found = mean(losses(at)[max(0, last - SUMMED) : last])
    return found * SUMMED if found is not None and last >= SUMMED else None


def running_loss(at: At) -> float | None:
    """Mean over all steps up to step x, counted from 0."""
    if at.x is None:
        return None
    found = losses(at)[: int(at.x) + 1]
    return mean(found) if len(found) > at.x else None


def dropped(at: At) -> float | None:
    if at.rank is not None:
        return at.of_rank.dropped
    return at.figures.staleness.dropped if at.figures.staleness else None


def staleness(at: At) -> float | None:
    if at.rank is not None:
        return at.of_rank.staleness
    return at.figures.staleness.mean if at.figures.staleness else None


TRAIN_LOSS = Figure(
    "train-loss",
    "training loss",
    train_loss,
    "mean over the samples of the last epoch, each before the update it takes part in",
    form=".3f",
    compared="absolute",
    learnt=True,
    obvious=True,
    in_full="training loss of the last epoch",
)
TRAIN_ACCURACY = Figure(
    "train-accuracy",
    "training accuracy",
    trained(task.ACCURACY),
    "share of the samples of the last epoch that were classified correctly, each before the update it takes part in",
    form=".2%",
    compared="absolute",
    learnt=True,
)
TEST_LOSS = Figure(
    "test-loss",
    "test loss",
    test_loss,
    "mean over the test set",
    form=".3f",
    compared="absolute",
    learnt=True,
    obvious=True,
)
ACCURACY = Figure(
    task.ACCURACY,
    "accuracy",
    tested(task.ACCURACY),
    "share of the test set that is classified correctly",
    form=".2%",
    error=accuracy_deviation,
    compared="absolute",
    learnt=True,
    obvious=True,
    better="higher",
    in_full="test accuracy",
)
PERPLEXITY = Figure(
    task.PERPLEXITY,
    "perplexity",
    tested(task.PERPLEXITY),
    "the exponential of the cross-entropy of a token, mean over the test set",
    form=".2f",
    compared="absolute",
    learnt=True,
    better="lower",
)
RMSE = Figure(
    task.RMSE,
    "rmse",
    tested(task.RMSE),
    "root of the mean squared error over the test set",
    form="precise",
    compared="absolute",
    learnt=True,
    better="lower",
)
TRAIN_LOSS_EPOCH = Figure(
    "train-loss-epoch",
    "training loss",
    lambda at: nth(at.figures.train_loss, at),
    "mean over the samples of an epoch",
    form=".3f",
    compared="absolute",
    learnt=True,
)
TRAIN_ACCURACY_EPOCH = Figure(
    "train-accuracy-epoch",
    "training accuracy",
    lambda at: nth(at.figures.train_accuracy, at),
    "share of the samples of an epoch that were classified correctly",
    form=".2%",
    compared="absolute",
    learnt=True,
)
LOSS_SUM = Figure(
    "loss-sum-20", "training loss, sum of 20 steps", loss_sum, "of the 20 steps up to this one", compared="absolute"
)
RUNNING_LOSS = Figure(
    "running-loss", "training loss, mean so far", running_loss, "of all steps up to this one", compared="absolute"
)
MODELS = Figure(
    "models",
    "different models at the end",
    models,
    "how many different models the ranks hold, statistics of BatchNorm included",
    form=".0f",
    compared="absolute",
    noise=0.0,
)
STEPS = Figure(
    "steps",
    "steps",
    lambda at: at.figures.steps if at.rank is None else at.of_rank.steps,
    "of the worker that made the most",
    form=",.0f",
    of_run=True,
)
UPDATES = Figure(
    "updates",
    "updates",
    lambda at: at.figures.updates if at.figures.updates is not None else at.figures.steps,
    "of the parameters",
    form=",.0f",
    of_run=True,
)
STALENESS = Figure(
    "staleness",
    "staleness",
    staleness,
    "updates applied since the worker read the parameters it computed a gradient from, mean over all gradients",
    form=".2f",
)
DROPPED = Figure(
    "dropped", "dropped", dropped, "gradients that were too stale to be applied", form=",.0f", of_run=True
)
