"""The only code that calls a collective."""

from gradsync.comm.torch import TorchComm, flat

__all__ = ["TorchComm", "flat"]
