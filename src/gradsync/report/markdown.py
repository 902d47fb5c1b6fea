"""A document as Markdown, as GitHub and Pandoc read it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradsync.exhibit import Chart, Document, Exhibit, Table
from gradsync.report.cells import cells

SPECIAL = re.compile(r"([\\`*_\[\]<>|~$]|^#|&(?=#?\w+;))")


def markdown(document: Document, pictures: Sequence[str]) -> str:
    """``pictures``: the file of each chart, in their order."""
    return "\n\n".join(blocks(document, iter(pictures))) + "\n"


def blocks(document: Document, pictures: Iterator[str]) -> Iterator[str]:
    yield f"# {escaped(document.title)}"
    if document.summary:
        yield bullets(document.summary)
    if document.left_out:
        yield "**Left out**"
        yield bullets(document.left_out)
    for section in document.sections:
        yield f"## {escaped(section.title)}"
        yield from map(escaped, section.sentences)
        for exhibit in section.exhibits:
            yield from shown(exhibit, pictures)
    if document.environment or document.command:
        yield "## How this was made"
    if document.environment:
        yield from shown(document.environment, pictures)
    if document.command:
        fence = "`" * max([3, *(len(found) + 1 for found in re.findall("`+", document.command))])
        yield f"{fence}sh\n{document.command}\n{fence}"


def shown(exhibit: Exhibit, pictures: Iterator[str]) -> Iterator[str]:
    """A picture has its title inside."""
    if isinstance(exhibit, Chart):
        yield f"![{escaped(exhibit.title)}]({next(pictures)})"
    else:
        yield f"**{escaped(exhibit.title)}**"
        yield pipes(exhibit)
    if exhibit.notes:
        yield f"<sub>{escaped(' '.join(exhibit.notes))}</sub>"


def pipes(table: Table) -> str:
    found = cells(table)
    headings = [column.heading for column in found.columns]
    lines = [line(headings), "|" + "|".join("---" if is_text else "---:" for is_text in found.is_text) + "|"]
    return "\n".join(lines + [line(row) for row in found.rows])


def line(texts: Sequence[str]) -> str:
    return f"| {' | '.join(escaped(text) for text in texts)} |"


def bullets(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(sentence)}" for sentence in sentences)


def escaped(text: str) -> str:
    """What would be markup is text, on one line."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))
