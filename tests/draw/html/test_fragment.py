"""Exhibits in a cell of a notebook: everything is in it, and nothing in it is code."""

from __future__ import annotations

from base64 import b64decode

from gradsync.draw.html.fragment import fragment
from gradsync.exhibit.form import Axis, Chart, Column, Section, Table

EVIL = "<script>alert(1)</script>"
CHART = Chart(EVIL, "bars", [{"x": "one", "y": 1.0}], Axis("x", "run"), Axis("y", "time", "s"))


def test_names_are_text_and_charts_are_pictures():
    table = Table(EVIL, [Column(EVIL), Column("time", "s")], [[EVIL, 1.5]], [EVIL])
    html = fragment([Section("Runs", [table, CHART], [EVIL])], [EVIL])
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 6
    assert '<th style="text-align: right">time (s)</th>' in html and "1.50</td>" in html
    picture = html.partition("data:image/svg+xml;base64,")[2].partition('"')[0]
    assert b64decode(picture).startswith(b"<svg")
