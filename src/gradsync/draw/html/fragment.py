"""Exhibits as a piece of HTML for a cell of a notebook: tables, sentences, and charts as pictures within it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from gradsync.draw.cells import cells
from gradsync.draw.vega.images import image
from gradsync.exhibit.form import Chart, Section

TEMPLATES = PackageLoader("gradsync.draw.html", "templates")


def fragment(sections: Sequence[Section], failures: Sequence[str] = ()) -> str:
    """It needs no script and no server. ``failures``: a sentence for each run that was not completed."""
    environment = Environment(
        loader=TEMPLATES, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("fragment.html.jinja").render(
        sections=sections,
        failures=failures,
        cells=cells,
        is_chart=lambda item: isinstance(item, Chart),
        picture=picture,
    )


def picture(chart: Chart) -> str:
    """As an address that holds the whole picture: unlike SVG elements, two of them never share a name."""
    return f"data:image/svg+xml;base64,{b64encode(image(chart, 'svg')).decode()}"
