"""The options of a model: the arguments of the function that builds it, read from text by their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from gradsync.config.values import flag, must_be, parsed
from gradsync.errors import InputError, unknown

PLAIN = (bool, int, float, str)


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The arguments that can be given, with their defaults. One without a default must be given."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of some functions that are not written in Python
        return {}
    return {item.name: item.default for item in parameters if item.kind in named}


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """By its annotation, else by its default, else text."""
    try:
        hints = get_type_hints(vars(function)["__init__"] if isinstance(function, type) else function)
    except Exception:  # annotations that cannot be evaluated
        hints = {}
    return {name: hints.get(name) or kind_of(default) for name, default in defaults_of(function).items()}


def kind_of(default: Any) -> type:
    return type(default) if type(default) in PLAIN else str


def parse_model_options(model: str, given: Mapping[str, str], types: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments. Unknown options, and values of the wrong type, are refused."""
    found = {}
    for name, text in given.items():
        key = name.replace("-", "_")
        if key not in types:
            raise unknown(f"option of {model}", name, [item.replace("_", "-") for item in types])
        try:
            found[key] = parsed(text, types[key])
        except ValueError:
            raise InputError(f"{flag('model_options')}.{name} is {text}: it must be {must_be(types[key])}.") from None
        except TypeError:  # an annotation of a kind that no text can be
            found[key] = text
    return found
