"""A document as one self-contained HTML page: styles, data and the drawing library are all inside.

The library is Vega-Embed with Vega and Vega-Lite, 0.9 MB; the page loads nothing from a server.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from platformdirs import user_cache_path

from gradsync.draw.cells import cells
from gradsync.draw.names import unique
from gradsync.draw.vega.charts import PANEL_WIDTH, WIDTH, legend, legend_columns, panels
from gradsync.draw.vega.theme import ON_PAGE, ON_PAPER, theme
from gradsync.exhibit.form import Chart, Document, slug
from gradsync.record import finite
from gradsync.record.writing import write_whole

TEMPLATES = PackageLoader("gradsync.draw.html", "templates")
GLOBAL = "window.vegaEmbed = vegaEmbed;"  # what page.js calls
MOST_WITHOUT_CONTENTS = 4  # sections


def page(document: Document) -> str:
    environment = Environment(
        loader=TEMPLATES, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    charts = {id(item): panels(item) for item in document.exhibits if isinstance(item, Chart)}
    return environment.get_template("page.html.jinja").render(
        document=document,
        anchors=unique(slug(section.title) or "section" for section in document.sections),
        has_contents=len(document.sections) > MOST_WITHOUT_CONTENTS,
        cells=cells,
        is_chart=lambda item: isinstance(item, Chart),
        specs=lambda chart: charts[id(chart)],
        legend=legend,
        legend_columns=legend_columns,
        in_script=in_script,
        looks={"page": theme(ON_PAGE), "file": theme(ON_PAPER, "white", legend_columns=1)},
        widths={"one": WIDTH, "several": PANEL_WIDTH},
        library=library() if charts else "",
        style=Markup(source("page.css")),
        script=Markup(source("page.js")),
    )


def in_script(value: Any) -> Markup:
    """JSON for a script element: it has no < that could end it."""
    text = json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


@cache
def library() -> Markup:
    """Putting it together takes two seconds and always comes to the same: the user's cache keeps it."""
    kept = user_cache_path("gradsync") / f"vega-{version('vl-convert-python')}.js"
    try:
        bundle = kept.read_text(encoding="utf-8")
    except (OSError, ValueError):  # not there, or not UTF-8
        bundle = vl_convert.javascript_bundle(GLOBAL)
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_whole(kept, bundle)
    return Markup(bundle.replace("</script", "<\\/script"))


def source(name: str) -> str:
    return TEMPLATES.get_source(Environment(), name)[0]
