"""A chart as a picture, drawn without a browser."""

from __future__ import annotations

import vl_convert

from gradsync.draw.vega.charts import spec
from gradsync.exhibit.form import Chart

SCALE = 2  # pixels of a PNG per pixel of the page: sharp on paper


def image(chart: Chart, form: str) -> bytes:
    """``form``: svg or png."""
    if form == "svg":
        return vl_convert.vegalite_to_svg(spec(chart)).encode()
    return vl_convert.vegalite_to_png(spec(chart), scale=SCALE)
