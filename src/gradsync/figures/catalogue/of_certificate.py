"""The figure of an equivalence certificate: how far N workers' parameters are from those of one process."""

from __future__ import annotations

from gradsync.figures.figure import FigureOf
from gradsync.record.certificate import Certificate

DISTANCE = FigureOf[Certificate](
    "distance",
    "largest distance",
    lambda certificate: certificate.distance,
    "of any parameter tensor from that of one process, relative to the tensor's largest value",
    form=".1e",
)
