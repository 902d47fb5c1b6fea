"""Text that came from elsewhere, made safe to show."""

from __future__ import annotations

import re
import unicodedata

# What a terminal interprets instead of showing: control characters, changes of text direction, lone surrogates, and
# line separators that only some programs know. Newlines and tabs stay.
UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
SUSPICIOUS = re.compile(r"[^\n\t\x20-\x7e\xa1-\xac\xae-\u05ff]")


def printable(text: object) -> str:
    """The same text with ``\\x1b`` written out where an escape character was."""
    shown = str(text)
    return shown if shown.isprintable() else SUSPICIOUS.sub(written_out, shown)


def written_out(found: re.Match[str]) -> str:
    letter = found[0]
    return ascii(letter)[1:-1] if unicodedata.category(letter) in UNSAFE else letter
