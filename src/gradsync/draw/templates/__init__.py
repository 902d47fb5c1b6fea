"""The templates of Markdown and LaTeX, and how they are filled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gradsync.draw.cells import cells
from gradsync.exhibit.form import Chart, Document


def rendered(
    name: str,
    document: Document,
    pictures: Sequence[str],
    filters: Mapping[str, Callable[..., str]],
    delimiters: Mapping[str, str] | None = None,
    **further: Any,
) -> str:
    """One file of text. ``filters`` escape what would be markup."""
    environment = Environment(
        loader=PackageLoader("gradsync.draw.templates", ""),
        autoescape=False,  # each template escapes for its own format
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **(delimiters or {}),  # type: ignore[arg-type]
    )
    environment.filters.update(filters)
    text = environment.get_template(name).render(
        document=document,
        cells=cells,
        is_chart=lambda exhibit: isinstance(exhibit, Chart),
        next_picture=iter(pictures).__next__,
        **further,
    )
    return text.rstrip() + "\n"
