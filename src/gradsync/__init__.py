"""Train a model data-parallel under any way of agreeing on gradients."""

from typing import TYPE_CHECKING, Any

from gradsync.errors import InputError
from gradsync.version import __version__

if TYPE_CHECKING:
    from gradsync.strategies import Strategy, attach

__all__ = ["InputError", "Strategy", "__version__", "attach"]


def __getattr__(name: str) -> Any:
    """These need torch; importing them on first use keeps ``gradsync --help`` quick."""
    if name in ("Strategy", "attach"):
        from gradsync import strategies

        return getattr(strategies, name)
    raise AttributeError(f"module 'gradsync' has no attribute {name!r}")
