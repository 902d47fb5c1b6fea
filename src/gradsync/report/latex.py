"""A document as LaTeX: it compiles as it is, and its tables can be copied into a paper."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from gradsync.exhibit import Chart, Column, Document, Exhibit, Table
from gradsync.report.cells import Cells, cells

PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage[a4paper, margin=2.2cm]{geometry}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\usepackage{lmodern}
\usepackage{booktabs, longtable, graphicx}
\setlength{\parindent}{0pt}
\setlength{\parskip}{6pt}
\begin{document}"""

ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "'": r"\textquotesingle{}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "×": r"$\times$", "±": r"$\pm$", "·": r"$\cdot$", "−": "$-$", "≈": r"$\approx$",
    "≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$", "→": r"$\rightarrow$", "∞": r"$\infty$", "√": r"$\surd$",
    "µ": r"\textmu{}", "μ": r"\textmu{}", "°": r"\textdegree{}", "…": r"\ldots{}", "–": "--", "—": "---",
    "α": r"$\alpha$", "β": r"$\beta$", "Δ": r"$\Delta$", "σ": r"$\sigma$",
}  # fmt: skip
LONG = 30  # rows that do not fit on one page
WIDE_TEXT = 45  # letters of a column whose lines are broken


def latex(document: Document, pictures: Sequence[str]) -> str:
    """``pictures``: the file of each chart, in their order."""
    return "\n\n".join([PREAMBLE, *blocks(document, iter(pictures)), r"\end{document}"]) + "\n"


def blocks(document: Document, pictures: Iterator[str]) -> Iterator[str]:
    yield rf"\section*{{{escaped(document.title)}}}"
    if document.summary:
        yield items(document.summary)
    if document.left_out:
        yield r"\textbf{Left out}"
        yield items(document.left_out)
    for section in document.sections:
        yield rf"\subsection*{{{escaped(section.title)}}}"
        yield from map(escaped, section.sentences)
        for exhibit in section.exhibits:
            yield from shown(exhibit, pictures)
    if document.environment or document.command:
        yield r"\subsection*{How this was made}"
    if document.environment:
        yield from shown(document.environment, pictures)
    if document.command:
        yield typewriter(document.command)


def shown(exhibit: Exhibit, pictures: Iterator[str]) -> Iterator[str]:
    """A picture has its title inside."""
    if isinstance(exhibit, Chart):
        yield picture(next(pictures))
    else:
        yield rf"\textbf{{{escaped(exhibit.title)}}}\nopagebreak"
        yield tabular(exhibit)
    if exhibit.notes:
        yield rf"{{\footnotesize {escaped(' '.join(exhibit.notes))}\par}}"


def typewriter(text: str) -> str:
    """Lines as they are; two hyphens do not become a dash."""
    lines = r"\\ ".join(escaped(line).replace("-", "-{}") for line in text.splitlines())
    return rf"{{\small\ttfamily\raggedright {lines}\par}}"


def picture(file: str) -> str:
    return rf"\includegraphics[width=\linewidth, height=0.8\textheight, keepaspectratio]{{{file}}}"


def tabular(table: Table) -> str:
    """Not wider than the page; a long one goes over several."""
    found = cells(table)
    headings = row(map(heading, found.columns, found.is_text))
    rows = "\n".join(row(map(escaped, each)) for each in found.rows)
    layout = "".join(columns(found))
    if len(found.rows) > LONG:
        head = f"\\toprule\n{headings}\n\\midrule\n\\endhead\n\\bottomrule\n\\endfoot"
        return f"{{\\footnotesize\n\\begin{{longtable}}{{{layout}}}\n{head}\n{rows}\n\\end{{longtable}}}}"
    body = f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{headings}\n\\midrule\n{rows}\n\\bottomrule\n\\end{{tabular}}"
    return f"\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{%\n{body}}}"


def columns(found: Cells) -> Iterator[str]:
    for index, is_text in enumerate(found.is_text):
        longest = max((len(each[index]) for each in found.rows), default=0)
        yield "p{6cm}" if is_text and longest > WIDE_TEXT else "l" if is_text else "r"


def heading(column: Column, is_text: bool) -> str:
    """The unit below the name."""
    unit = rf"\\({escaped(column.unit)})" if column.unit else ""
    return rf"\shortstack[{'l' if is_text else 'r'}]{{{escaped(column.name)}{unit}}}"


def row(texts: Iterable[str]) -> str:
    return " & ".join(texts) + r" \\"


def items(sentences: Sequence[str]) -> str:
    lines = "\n".join(rf"\item {escaped(sentence)}" for sentence in sentences)
    return f"\\begin{{itemize}}\n{lines}\n\\end{{itemize}}"


def escaped(text: str) -> str:
    """What would be a command is text. A letter that pdflatex does not have becomes the nearest, or a ?."""
    return "".join(ESCAPES.get(letter) or known(letter) for letter in " ".join(text.split()))


def known(letter: str) -> str:
    if ord(letter) < 0x180:
        return letter
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"
