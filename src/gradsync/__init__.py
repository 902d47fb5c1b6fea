"""Train a model data-parallel under any synchronization strategy."""

from typing import TYPE_CHECKING, Any

from gradsync.errors import InputError
from gradsync.version import __version__

if TYPE_CHECKING:
    from gradsync.library.attach import attach
    from gradsync.strategies import Strategy

__all__ = ["InputError", "Strategy", "__version__", "attach"]


def __getattr__(name: str) -> Any:
    """These need torch; importing them on first use keeps ``gradsync --help`` quick."""
    if name == "attach":
        from gradsync.library.attach import attach

        return attach
    if name == "Strategy":
        from gradsync.strategies import Strategy

        return Strategy
    raise AttributeError(f"module 'gradsync' has no attribute {name!r}")
