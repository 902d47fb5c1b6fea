"""A document as LaTeX: it compiles as it is, and its tables can be copied into a paper."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence

from gradsync.draw.cells import Cells
from gradsync.draw.templates import rendered
from gradsync.exhibit.form import Document

ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "'": r"\textquotesingle{}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "×": r"$\times$", "±": r"$\pm$", "·": r"$\cdot$", "−": "$-$", "≈": r"$\approx$",
    "≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$", "→": r"$\rightarrow$", "∞": r"$\infty$", "√": r"$\surd$",
    "µ": r"\textmu{}", "μ": r"\textmu{}", "°": r"\textdegree{}", "…": r"\ldots{}", "–": "--", "—": "---",
    "α": r"$\alpha$", "β": r"$\beta$", "Δ": r"$\Delta$", "σ": r"$\sigma$",
}  # fmt: skip
LONG = 30  # a table with more rows may not fit on one page
WIDE_TEXT = 45  # letters: the lines of a wider column are broken
ANGLES = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}  # braces are LaTeX's own


def latex(document: Document, pictures: Sequence[str]) -> str:
    """``pictures``: the file of each chart, in their order. Tables are not wider than the page."""
    filters: dict[str, Callable[..., str]] = {"escaped": escaped, "typewriter": typewriter, "layout": layout}
    return rendered("report.tex.jinja", document, pictures, filters, ANGLES, long=LONG)


def typewriter(line: str) -> str:
    """Escaped so that two hyphens do not become a dash."""
    return escaped(line).replace("-", "-{}")


def layout(found: Cells) -> str:
    return "".join(columns(found))


def columns(found: Cells) -> Iterator[str]:
    for index, is_text in enumerate(found.is_text):
        longest = max((len(each[index]) for each in found.rows), default=0)
        yield "p{6cm}" if is_text and longest > WIDE_TEXT else "l" if is_text else "r"


def escaped(text: str) -> str:
    """Special characters are escaped. A letter that pdflatex does not have becomes the nearest, or a ?."""
    return "".join(ESCAPES.get(letter) or known(letter) for letter in " ".join(text.split()))


def known(letter: str) -> str:
    if ord(letter) < 0x180:
        return letter
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"
