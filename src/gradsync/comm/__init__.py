"""The only code that calls a collective."""

from gradsync.comm import cost
from gradsync.comm.cost import Traffic
from gradsync.comm.torch import TorchComm, flat

__all__ = ["TorchComm", "Traffic", "cost", "flat"]
