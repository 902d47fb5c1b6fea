"""Figures of the collective benchmark: of one operation on one size of message, and of a fit over the sizes."""

from __future__ import annotations

from gradsync.figures.figure import FigureOf
from gradsync.record.summaries import ProbeFit, ProbePoint

TIME = FigureOf[ProbePoint](
    "collective-time",
    "time",
    lambda point: point.seconds,
    "that of the slowest rank, from the barrier before a call until the call is done, mean over iterations",
    "ms",
    deviation=lambda point: point.spread_seconds,
    in_full="time of a collective",
)
MEDIAN_TIME = FigureOf[ProbePoint](
    "collective-median-time",
    "median time",
    lambda point: point.median_seconds,
    "of the slowest rank, median over iterations",
    "ms",
)
FACTOR = FigureOf[ProbePoint | ProbeFit](
    "link-factor",
    "factor",
    lambda item: item.factor,
    "the fraction of S that crosses each link when nothing is sent twice",
    form=".2f",
)
ALGORITHM_BANDWIDTH = FigureOf[ProbePoint](
    "algorithm-bandwidth",
    "algorithm bandwidth",
    lambda point: point.algorithm_bandwidth,
    "S / time; S: message size in bytes",
    "MB/s",
)
BUS_BANDWIDTH = FigureOf[ProbePoint](
    "bus-bandwidth",
    "bus bandwidth",
    lambda point: point.bus_bandwidth,
    "S / time × the fraction of S that crosses each link, as nccl-tests defines it; S: message size in bytes",
    "MB/s",
)
ALPHA = FigureOf[ProbeFit](
    "alpha",
    "α",
    lambda fit: fit.alpha_seconds,
    "latency of a call, whatever its size: time = α + S × factor / β",
    "µs",
)
BETA = FigureOf[ProbeFit]("beta", "β", lambda fit: fit.beta_bytes_per_second, "bandwidth of a link", "Gbit/s")
BETA_BYTES = FigureOf[ProbeFit]("beta-bytes", "β", BETA.of, "the same in bytes", "MB/s")
FIT_ERROR = FigureOf[ProbeFit](
    "fit-error",
    "error",
    lambda fit: fit.rms_error,
    "relative error of the fitted time, root mean square over the sizes",
    form=".0%",
)
LARGEST_FIT_ERROR = FigureOf[ProbeFit](
    "largest-fit-error",
    "largest error",
    lambda fit: fit.largest_error,
    "relative error of the fitted time, at the size where it is largest",
    form=".0%",
)
