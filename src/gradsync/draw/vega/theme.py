"""How every chart looks, apart from its data: quiet axes, and text in one ink."""

from __future__ import annotations

from typing import Any

ON_PAPER = "#24292f"
ON_PAGE = "currentColor"  # of the surrounding page: right on light, on dark and on paper without redrawing
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
LEGEND = {"orient": "bottom", "title": None, "labelLimit": 320, "symbolSize": 110, "offset": 12, "columnPadding": 14}


def theme(ink: str, background: str = "transparent", legend_columns: int = 0) -> dict[str, Any]:
    """A Vega-Lite config. With 0 columns there is no legend."""
    text = {"labelColor": ink, "titleColor": ink, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": 500}
    return {
        "background": background,
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            "labelOpacity": 0.85,
            "gridColor": ink,
            "gridOpacity": 0.12,
            "domainColor": ink,
            "domainOpacity": 0.4,
            "tickColor": ink,
            "tickOpacity": 0.4,
            "tickSize": 4,
            "labelPadding": 5,
            "titlePadding": 9,
        },
        "legend": {**text, **LEGEND, "columns": legend_columns} if legend_columns else {"disable": True},
        "title": {"color": ink, "anchor": "start", "fontSize": 14, "fontWeight": 600, "offset": 12},
        "text": {"color": ink, "fontSize": 11},
        "rule": {"color": ink},
        "tick": {"color": ink},
    }
