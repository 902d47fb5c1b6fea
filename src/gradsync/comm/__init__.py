"""The only code that calls a collective: over torch (gloo, NCCL) or MPI, with the time and bytes of every call."""

from gradsync.comm.base import Comm, LostPeer, flat
from gradsync.comm.torch import TorchComm
from gradsync.ledger import cost
from gradsync.ledger.cost import Traffic

__all__ = ["Comm", "LostPeer", "TorchComm", "Traffic", "cost", "flat"]
