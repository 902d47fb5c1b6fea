"""Train a model data-parallel under any way of agreeing on gradients."""

from typing import TYPE_CHECKING, Any

from gradsync.errors import InputError
from gradsync.version import __version__

if TYPE_CHECKING:
    from gradsync.strategies import attach

__all__ = ["InputError", "__version__", "attach"]


def __getattr__(name: str) -> Any:
    """``gradsync.attach`` needs torch; importing it on first use keeps ``gradsync --help`` quick."""
    if name == "attach":
        from gradsync.strategies import attach

        return attach
    raise AttributeError(f"module 'gradsync' has no attribute {name!r}")
