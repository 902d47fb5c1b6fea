"""A document as Markdown, as GitHub and Pandoc read it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gradsync.draw.templates import rendered
from gradsync.exhibit.form import Document

SPECIAL = re.compile(r"([\\`*_\[\]<>|~$]|^#|&(?=#?\w+;))")


def markdown(document: Document, pictures: Sequence[str]) -> str:
    """``pictures``: the file of each chart, in their order."""
    return rendered("report.md.jinja", document, pictures, {"escaped": escaped, "fence": fence})


def escaped(text: str) -> str:
    """Text on one line, with what would be markup escaped."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def fence(code: str) -> str:
    """More backticks than any run of them in the code."""
    return "`" * max([3, *(len(found) + 1 for found in re.findall("`+", code))])
