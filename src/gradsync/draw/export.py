"""A document as files, in every format. Drawing code is imported only when needed: altair alone takes a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from gradsync.draw.names import unique
from gradsync.errors import InputError, unknown
from gradsync.exhibit.form import Chart, Document, Table, slug
from gradsync.record import strict_json
from gradsync.record.writing import is_own_file, write_whole


def write(document: Document, path: Path, form: str) -> list[Path]:
    """Write the document, and return the paths of its files, the one to open first.

    A page or JSON is one file; Markdown and LaTeX have a folder of charts next to them; CSV, SVG and PNG fill the
    folder ``path``.
    """
    if form not in WRITERS:
        raise unknown("format", form, FORMATS)
    with refused_if_unwritable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        return WRITERS[form](document, path)


@contextmanager
def refused_if_unwritable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}. Choose another place, or make this one writable."
        ) from None


def write_html(document: Document, path: Path) -> list[Path]:
    from gradsync.draw.html.page import page

    return [write_whole(path, page(document))]


def write_json(document: Document, path: Path) -> list[Path]:
    from gradsync.draw.data import plain

    return [write_whole(path, strict_json(plain(document), indent=2) + "\n")]


def write_tables(document: Document, folder: Path) -> list[Path]:
    """Every table as CSV, a file each."""
    return write(document, folder, "csv")


def write_table(table: Table, path: Path) -> Path:
    """One table as CSV, in a folder that exists."""
    from gradsync.draw.data import csv_text

    with refused_if_unwritable(path):
        return write_whole(path, csv_text(table))


def write_csv(document: Document, path: Path) -> list[Path]:
    path.mkdir(exist_ok=True)
    tables = [item for item in document.exhibits if isinstance(item, Table)]
    tables += [document.environment] if document.environment else []
    return [write_table(table, path / f"{name}.csv") for name, table in zip(file_names(tables), tables, strict=True)]


def write_markdown(document: Document, path: Path) -> list[Path]:
    from gradsync.draw.markdown import markdown

    document = as_it_fits(document, path)
    pictures = draw(charts_of(document), charts_folder(path), "svg")
    return [write_whole(path, markdown(document, beside(pictures))), *pictures]


def write_latex(document: Document, path: Path) -> list[Path]:
    from gradsync.draw.latex import latex

    document = as_it_fits(document, path)
    pictures = draw(charts_of(document), charts_folder(path), "png")
    return [write_whole(path, latex(document, beside(pictures))), *pictures]


def write_svg(document: Document, path: Path) -> list[Path]:
    return draw(charts_of(document), path, "svg")


def write_png(document: Document, path: Path) -> list[Path]:
    return draw(charts_of(document), path, "png")


WRITERS: dict[str, Callable[[Document, Path], list[Path]]] = {
    "html": write_html,
    "md": write_markdown,
    "csv": write_csv,
    "json": write_json,
    "latex": write_latex,
    "svg": write_svg,
    "png": write_png,
}
FORMATS = tuple(WRITERS)
SUFFIXES = {".html": "html", ".md": "md", ".json": "json", ".tex": "latex", ".csv": "csv"}
DEFAULT = {"html": "report.html", "md": "report.md", "json": "report.json", "latex": "report.tex"}


def form_and_path(form: str | None, path: Path | None) -> tuple[str, Path]:
    """Each follows from the other, if only one is given; without both it is a page."""
    form = form or SUFFIXES.get(path.suffix if path else "", "html")
    if form not in WRITERS:
        raise unknown("format", form, FORMATS)
    return form, path or Path(DEFAULT.get(form, f"report-{form}"))


def draw(charts: Sequence[Chart], folder: Path, form: str) -> list[Path]:
    """Without a chart, no folder is made."""
    from gradsync.draw.vega.images import image

    if charts:
        folder.mkdir(exist_ok=True)
    return [
        write_whole(folder / f"{name}.{form}", image(chart, form))
        for name, chart in zip(file_names(charts), charts, strict=True)
    ]


def as_it_fits(document: Document, path: Path) -> Document:
    """Without its charts where there is no place next to it for their folder: in a pipe, or a device."""
    if is_own_file(path):
        return document
    tables = [[item for item in section.exhibits if isinstance(item, Table)] for section in document.sections]
    sections = [replace(section, exhibits=kept) for section, kept in zip(document.sections, tables, strict=True)]
    return replace(document, sections=sections)


def charts_of(document: Document) -> list[Chart]:
    return [item for item in document.exhibits if isinstance(item, Chart)]


def charts_folder(path: Path) -> Path:
    return path.with_name(f"{path.stem}-charts")


def beside(pictures: Sequence[Path]) -> list[str]:
    """As a file next to their folder refers to them."""
    return [f"{picture.parent.name}/{picture.name}" for picture in pictures]


def file_names(exhibits: Sequence[Table | Chart]) -> list[str]:
    return unique(slug(exhibit.title) or "exhibit" for exhibit in exhibits)
