"""A document in every format."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradsync.draw.export import FORMATS, write, write_tables
from gradsync.draw.latex import escaped as latex_escaped
from gradsync.draw.latex import latex
from gradsync.draw.markdown import escaped as markdown_escaped
from gradsync.errors import InputError
from gradsync.exhibit.form import Column, Document, Section, Table
from made_up_document import CHARTS, DOCUMENT, ENVIRONMENT, TABLE

GOLDEN = Path(__file__).parent / "golden"
SMALL = Document("Small", ["One."], [Section("One", [CHARTS[0], TABLE, CHARTS[0]])])


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_writes_whole_files_and_says_which(form: str, tmp_path: Path):
    written = write(SMALL, tmp_path / "new" / "small.x", form)
    assert written
    assert all(path.stat().st_size > 0 for path in written)
    assert sorted(path for path in (tmp_path / "new").rglob("*") if path.is_file()) == sorted(written)
    again = write(SMALL, tmp_path / "new" / "small.x", form)
    assert again == written, "the same files are replaced"


def test_charts_of_the_same_title_get_names_of_their_own(tmp_path: Path):
    first, second = write(SMALL, tmp_path / "charts", "svg")
    assert first.name == "where-the-time-of-a-step-went.svg"
    assert second.name == "where-the-time-of-a-step-went-2.svg"
    assert first.read_text().startswith("<svg")


def test_png_is_twice_as_large_as_on_the_page(tmp_path: Path):
    data = write(SMALL, tmp_path / "charts", "png")[0].read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") > 2 * 620


def test_markdown_has_tables_and_refers_to_its_charts(tmp_path: Path):
    page, *charts = write(DOCUMENT, tmp_path / "report.md", "md")
    text = page.read_text()
    assert len(charts) == len(CHARTS)
    for chart in charts:
        assert f"](report-charts/{chart.name})" in text
        assert (tmp_path / "report-charts" / chart.name).exists()
    assert "| strategy | workers | step (s) | speed-up (×) |\n|---|---:|---:|---:|\n" in text
    assert r"| all\_reduce & \<co\> | 1 | 0.51 ± 0.01 | – |" in text
    assert r"| a \| b | 1,234 | 0.25 | 1.80 |" in text
    assert "- runs/third: unfinished." in text
    assert f"```sh\n{DOCUMENT.command}\n```" in text


def test_markdown_escapes_what_would_be_markup():
    assert markdown_escaped("# a*b_c\n`d` [e] &lt; f & g") == r"\# a\*b\_c \`d\` \[e\] \&lt; f & g"


def test_csv_reads_back_as_the_same_numbers(tmp_path: Path):
    files = write(DOCUMENT, tmp_path / "tables", "csv")
    assert [path.name for path in files] == ["scaling-100-of-it-all.csv", "environment.csv"]
    with open(files[0], newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["strategy"] == "all_reduce & <co>"
    assert float(rows[0]["step (s)"]) == 0.5123456789
    assert float(rows[0]["step (s) deviation"]) == 0.01
    assert rows[0]["speed-up (×)"] == ""
    assert int(rows[1]["workers"]) == 1234
    assert rows[1]["step (s) deviation"] == ""


def test_tables_of_a_study_are_a_csv_each_in_a_folder_that_need_not_be_there(tmp_path: Path):
    folder = tmp_path / "study" / "tables"
    files = write_tables(DOCUMENT, folder)
    assert [path.relative_to(folder).name for path in files] == ["scaling-100-of-it-all.csv", "environment.csv"]
    assert write_tables(SMALL, folder)[0].read_text() == files[0].read_text()


@pytest.mark.parametrize("form", ["md", "latex"])
def test_pages_of_text_are_as_they_were(form: str, tmp_path: Path):
    text = write(DOCUMENT, tmp_path / f"report.{form}", form)[0].read_text()
    assert text == (GOLDEN / f"report.{form}").read_text()


def test_names_are_text_in_every_format(tmp_path: Path):
    """Names of models, strategies and folders come from the user."""
    name = "<script>alert(1)</script> & `x` | $y$ \\input{z}"
    table = Table(name, [Column(name), Column("n", name)], [[name, 1]], [name])
    odd = Document(name, [name], [Section(name, [table], [name])], name, None, [name])
    html, markdown, tex = (write(odd, tmp_path / form, form)[0].read_text() for form in ("html", "md", "latex"))
    assert "<script>alert" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp; `x` | $y$ \\input{z}") >= 9
    escaped = r"\<script\>alert(1)\</script\> & \`x\` \| \$y\$ \\input{z}"
    assert markdown.count(escaped) == markdown.count("alert") - 1, "as it is only in the block of code"
    assert tex.count(r"\textless{}script\textgreater{}") == tex.count("alert")
    assert r"\input{" not in tex


def test_json_has_everything_as_raw_numbers(tmp_path: Path):
    found = json.loads(write(DOCUMENT, tmp_path / "report.json", "json")[0].read_text())
    table, lines, _ = found["sections"][1]["exhibits"]
    assert table["exhibit"] == "table"
    assert table["rows"][0] == ["all_reduce & <co>", 1, {"mean": 0.5123456789, "deviation": 0.01}, None, None]
    assert table["columns"][2] == {"name": "step", "unit": "s", "form": ""}
    assert lines["exhibit"] == "chart"
    assert lines["kind"] == "lines"
    assert lines["rows"][1]["workers"] == 2
    assert found["environment"]["title"] == ENVIRONMENT.title
    assert found["command"] == DOCUMENT.command
    assert found["left_out"] == ["runs/third: unfinished."]


def test_json_writes_what_is_no_number_as_null(tmp_path: Path):
    odd = Document("Odd", [], [Section("", [Table("t", [Column("x")], [[float("nan")]])])])
    text = write(odd, tmp_path / "odd.json", "json")[0].read_text()
    assert json.loads(text)["sections"][0]["exhibits"][0]["rows"] == [[None]]


def test_latex_is_a_whole_document_with_its_charts(tmp_path: Path):
    page, *charts = write(DOCUMENT, tmp_path / "report.tex", "latex")
    text = page.read_text()
    assert text.startswith(r"\documentclass")
    assert text.rstrip().endswith(r"\end{document}")
    assert len(charts) == len(CHARTS)
    for chart in charts:
        assert f"{{report-charts/{chart.name}}}" in text
    assert r"\textbf{Scaling, 100 \% of it\_all}" in text
    assert r"all\_reduce \& \textless{}co\textgreater{} & 1 & 0.51 $\pm$ 0.01 & -- \\" in text
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert text.count("{") == text.count("}"), "braces of text are escaped in pairs here"
    assert "-{}-{}out" in text, "two hyphens stay two"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 % & a_b", r"5 \% \& a\_b"),
        ("3 × 2 ± 1", r"3 $\times$ 2 $\pm$ 1"),
        ("{~^\\}", r"\{\textasciitilde{}\textasciicircum{}\textbackslash{}\}"),
        ("£ é 漢 ﬁ", "£ é ? fi"),
    ],
)
def test_latex_escapes(text: str, expected: str):
    assert latex_escaped(text) == expected


def test_latex_keeps_the_lines_of_a_command():
    text = latex(Document("", [], [], "a --b\nc"), [])
    assert "\n{\\small\\ttfamily\\raggedright a -{}-{}b\\\\ c\\par}\n" in text


def test_a_long_latex_table_goes_over_several_pages():
    rows = [["name", n] for n in range(100)]
    text = latex(Document("", [], [Section("", [Table("", [Column("a"), Column("b", "s")], rows)])]), [])
    assert r"\begin{longtable}{lr}" in text
    assert r"\shortstack[r]{b\\(s)}" in text
    assert text.count("name &") == 100


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for form in FORMATS:
        with pytest.raises(InputError, match=rf"cannot write {tmp_path}.* Choose another place"):
            write(SMALL, tmp_path / "file" / "report", form)


def test_an_unknown_format_lists_the_known_ones(tmp_path: Path):
    with pytest.raises(InputError, match=r"unknown format 'htm'. Did you mean html\?.*latex"):
        write(SMALL, tmp_path / "report", "htm")


def test_a_document_without_exhibits_can_be_written(tmp_path: Path):
    bare = replace(DOCUMENT, sections=[], environment=None, command="", left_out=())
    for form in FORMATS:
        files = write(bare, tmp_path / form, form)
        assert all(path.exists() for path in files)
        assert bool(files) == (form in ("html", "md", "json", "latex"))
