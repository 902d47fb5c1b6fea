"""Exhibits on a terminal: tables, sentences, and the charts that make sense as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.text import Text

from gradsync.draw.cells import one_line
from gradsync.draw.terminal.charts import BLOCK, chart_lines
from gradsync.draw.terminal.tables import table_lines
from gradsync.draw.terminal.words import wrapped
from gradsync.exhibit.form import Chart, Document, Exhibit, Section

TITLE, HEADING, NOTE = "bold", "bold underline", "italic"


def draw(what: Document | Section | Exhibit, console: Console, *, details: bool = False) -> None:
    """A document with its title, its findings and its sections; a section as its exhibits, then its sentences.

    Sections of detail are left out of a document unless ``details`` asks for them. How a document was made, which is
    its environment and its command, is on the page.
    """
    for lines in document_blocks(what, console, details) if isinstance(what, Document) else blocks(what, console):
        # An empty line comes first. The lines are wrapped already: the console leaves them as they are.
        console.print(Text("\n").join([Text(), *lines]), soft_wrap=True)


def document_blocks(document: Document, console: Console, details: bool) -> Iterator[list[Text]]:
    yield paragraphs([document.title], console, HEADING)
    if document.summary:
        yield paragraphs(document.summary, console)
    for section in document.sections:
        if (details or not section.detail) and (found := list(blocks(section, console))):
            yield from [paragraphs([section.title], console, HEADING)] if section.title else []
            yield from found
    if document.left_out:
        yield [*paragraphs(["Left out"], console, TITLE), *paragraphs(document.left_out, console)]


def blocks(what: Section | Exhibit, console: Console) -> Iterator[list[Text]]:
    """Blocks of lines that belong together, without empty lines within a block."""
    for exhibit in what.exhibits if isinstance(what, Section) else [what]:
        if lines := exhibit_lines(exhibit, console):
            yield lines
    if isinstance(what, Section) and what.sentences:
        yield paragraphs(what.sentences, console)


def exhibit_lines(exhibit: Exhibit, console: Console) -> list[Text]:
    """No lines for a chart that only the page shows."""
    is_plain = console.options.ascii_only
    if isinstance(exhibit, Chart):
        drawn = chart_lines(exhibit, console.width, "#" if is_plain else BLOCK)
    else:
        drawn = [Text(line) for line in table_lines(exhibit, console.width, "-" if is_plain else "─")]
    if not drawn:
        return []
    title, notes = [exhibit.title] if exhibit.title else [], [" ".join(exhibit.notes)] if exhibit.notes else []
    return [*paragraphs(title, console, TITLE), *drawn, *paragraphs(notes, console, NOTE)]


def paragraphs(sentences: Iterable[str], console: Console, style: str = "") -> list[Text]:
    """Each sentence on lines of its own."""
    return [Text(line, style) for sentence in sentences for line in wrapped(one_line(sentence), console.width)]
