"""The only code that calls a collective."""

from gradsync.comm.torch import TorchComm

__all__ = ["TorchComm"]
