"""The same runs on the terminal, on the page, in charts and as CSV have the same numbers, for every kind of command.

Each command is run once, as small as it can be. Then its folder is read again, as `gradsync show` does.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

from charts_beside_tables import shared_numbers
from drawn_tables import Page, PageTable, read_csv, read_terminal, table_text, without_dashes
from exhibited import column, text
from gradsync.draw.cells import cells
from gradsync.draw.console import PIPE_WIDTH
from gradsync.draw.export import write_tables
from gradsync.draw.html.page import page
from gradsync.exhibit.form import Chart, Document, Table
from gradsync.figures.value import mean_of
from gradsync.study.making.document import document
from gradsync.study.making.found import found_in
from in_process import gradsync

SMALL = "--model logistic --threads 1 --train-samples 64 --test-samples 64"
COMMANDS = {
    "compare": f"compare --strategies local,all-reduce --workers 2 --steps 6 --batch-size 16 {SMALL}",
    "verify": f"verify --strategies all-reduce --workers 2 --steps 3 {SMALL}",
    "probe": "probe --workers 2 --sizes 1KB,64KB --operations all-reduce,broadcast",
    "study": f"study batch --batch-sizes 16,32 --steps 4 {SMALL}",
    "reproduce": "reproduce cs744-tensorflow --scale smoke --only 'Table 4' --no-cluster --steps 3",
}


@dataclass(frozen=True)
class Made:
    name: str
    printed: str
    folder: Path
    document: Document

    @property
    def tables(self) -> list[Table]:
        """As a page has them: that of the environment is the last one."""
        found = [item for item in self.document.exhibits if isinstance(item, Table)]
        return found + ([self.document.environment] if self.document.environment else [])


@pytest.fixture(scope="session", params=COMMANDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    out = tmp_path_factory.mktemp(request.param)
    done = gradsync(shlex.split(COMMANDS[request.param]), out, {})
    assert done.returncode == 0, done.stderr + done.stdout
    (folder,) = (out / "studies").iterdir()
    return Made(request.param, done.stdout, folder, document(found_in([folder])))


def test_there_are_tables_with_numbers(made: Made):
    assert made.tables
    assert any(isinstance(value, float) for table in made.tables for row in table.rows for value in row)
    assert not made.document.left_out


def test_no_section_and_no_finding_is_there_twice(made: Made):
    titles = [section.title for section in made.document.sections]
    assert len(set(titles)) == len(titles)
    assert len(set(made.document.summary)) == len(made.document.summary)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_terminal_has_every_cell(made: Made, width: int):
    whole = text(made.document, width, details=True)
    for table in made.tables[: -1 if made.document.environment else None]:
        assert table_text(table, width) in whole
    for table in made.tables:
        assert max(map(len, table_text(table, width).splitlines())) <= width
        assert read_terminal(table, width) == cells(table).rows, table.title


def test_the_page_has_every_cell(made: Made):
    written = Page((made.folder / "report.html").read_text()).tables
    assert Page(page(made.document)).tables == written, "as the command wrote it, and made again from the folder"
    assert written == [as_on_page(table) for table in made.tables]


def as_on_page(table: Table) -> PageTable:
    shown = cells(table)
    headings = [f"{column.name} {column.unit}".strip() for column in shown.columns]
    return PageTable(table.title, headings, [list(row) for row in shown.rows])


def test_the_terminal_and_the_page_have_the_same_sentences(made: Made):
    written = Page((made.folder / "report.html").read_text()).sentences
    assert Page(page(made.document)).sentences == written, "as the command wrote it, and made again from the folder"
    of_sections = [sentence for section in made.document.sections for sentence in section.sentences]
    assert any(re.search(r"\d", sentence) for sentence in of_sections)
    assert set(written) == {*made.document.summary, *of_sections}
    assert set(written) <= set(text(made.document, width=10_000, details=True).splitlines())


CHARTS = {  # beside a table of the same figures
    "compare": {"Time of a step, and where it went", "Computation against communication"},
    "verify": set(),
    "probe": {"gloo: time of a collective by its size"},
    "study": {
        *("Time of an epoch by batch size", "Throughput by batch size", "Peak memory by batch size"),
        "Time of a step, and where it went",
    },
    "reproduce": {
        *("Table 4: received against the first", "Table 4: sent against the first"),
        *("Time of a step, and where it went", "Computation against communication"),
    },
}


def test_a_chart_draws_the_numbers_of_the_table_beside_it(made: Made):
    compared = shared_numbers(made.document)
    assert compared.keys() == CHARTS[made.name]
    for title, pairs in compared.items():
        for drawn, said in pairs:
            assert drawn == pytest.approx(said, rel=1e-9), title


def test_the_curve_of_accuracies_ends_at_the_accuracy_of_the_table(made: Made):
    charts = {item.title.split(":")[0]: item for item in made.document.exhibits if isinstance(item, Chart)}
    curve = charts.get("Test accuracy")
    assert curve or made.name not in ("compare", "reproduce")
    if curve:
        ends = {row["run"]: row["accuracy"] for row in curve.rows}
        said = next(table for table in made.tables if "test loss" in [column.name for column in table.columns])
        assert list(ends.values()) == pytest.approx(
            [100 * (mean_of(value) or 0.0) for value in column(said, "accuracy")]
        )


def test_the_csv_has_every_cell(made: Made, tmp_path: Path):
    files = write_tables(made.document, tmp_path / "tables")
    for table, path in zip(made.tables, files, strict=True):
        assert without_dashes(read_csv(table, path)) == without_dashes(cells(table).rows), table.title
        assert path.read_text() == (made.folder / "tables" / path.name).read_text(), "as the command wrote it"
    assert {path.name for path in files} == {path.name for path in (made.folder / "tables").iterdir()}


def test_the_command_printed_these_tables(made: Made):
    shown = [item for section in made.document.sections if not section.detail for item in section.exhibits]
    tables = [item for item in shown if isinstance(item, Table)]
    assert tables
    for table in tables:
        assert table_text(table, PIPE_WIDTH) in made.printed, table.title


def test_the_command_printed_these_sentences(made: Made):
    printed = " ".join(made.printed.split())
    for section in made.document.sections:
        for sentence in section.sentences:
            assert section.detail or sentence in printed
