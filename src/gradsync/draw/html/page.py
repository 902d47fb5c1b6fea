"""A document as one HTML page that needs nothing else: styles, data and the library that draws are all inside.

The library is Vega-Embed with Vega and Vega-Lite, 0.9 MB; the page asks no server for anything.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gradsync.exhibit import Chart, Document, slug
from gradsync.record import finite
from gradsync.report.cells import cells
from gradsync.report.charts import PANEL_WIDTH, WIDTH, legend, legend_columns, panels
from gradsync.report.look import ON_PAGE, ON_PAPER, look
from gradsync.report.names import unique

TEMPLATES = PackageLoader("gradsync.report", "templates")
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
        looks={"page": look(ON_PAGE), "file": look(ON_PAPER, "white", legend_columns=1)},
        widths={"one": WIDTH, "several": PANEL_WIDTH},
        library=library() if charts else "",
        style=Markup(source("page.css")),
        script=Markup(source("page.js")),
    )


def in_script(value: Any) -> Markup:
    """JSON between script tags: no < that could end them."""
    text = json.dumps(finite(value), ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


@cache
def library() -> Markup:
    """Takes seconds to put together, the same one each time."""
    return Markup(vl_convert.javascript_bundle(GLOBAL).replace("</script", "<\\/script"))


def source(name: str) -> str:
    return TEMPLATES.get_source(Environment(), name)[0]
