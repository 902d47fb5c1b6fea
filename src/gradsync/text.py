"""Text that came from elsewhere, made safe to show."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

# What a terminal interprets instead of showing: control characters, changes of text direction, lone surrogates, and
# line separators that only some programs know. Newlines and tabs stay.
UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
SUSPICIOUS = re.compile(r"[^\n\t\x20-\x7e\xa1-\xac\xae-\u05ff]")

POWERS = ("", "k", "M", "G", "T")


def printable(text: object) -> str:
    """The same text with ``\\x1b`` written out where an escape character was."""
    shown = str(text)
    return shown if shown.isprintable() else SUSPICIOUS.sub(written_out, shown)


def written_out(found: re.Match[str]) -> str:
    letter = found[0]
    return ascii(letter)[1:-1] if unicodedata.category(letter) in UNSAFE else letter


def abbreviated(value: float, gap: str = "") -> str:
    """Three significant digits, and a letter for the power of 1000: 617k, 36.9M, as on the axes of charts."""
    rounded = float(f"{value:.3g}")
    power = min(len(POWERS) - 1, max(0, int(math.log10(abs(rounded)) // 3))) if rounded else 0
    return f"{rounded / 1000**power:g}{gap}{POWERS[power]}"


def joined(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def with_article(noun: str) -> str:
    """An accuracy, a perplexity."""
    return f"{'an' if noun.startswith(('a', 'e', 'i', 'o', 'rmse')) else 'a'} {noun}"


def size_text(count: float) -> str:
    """A number of bytes: 16 B, 4 KB, 1.5 MB."""
    return f"{abbreviated(count, ' ').upper()}B"
