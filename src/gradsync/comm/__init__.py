"""The only code that calls a collective."""

from gradsync.comm import cost
from gradsync.comm.base import Comm, LostPeer, flat
from gradsync.comm.cost import Traffic
from gradsync.comm.torch import TorchComm

__all__ = ["Comm", "LostPeer", "TorchComm", "Traffic", "cost", "flat"]
