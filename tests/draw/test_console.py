"""Sentences on a terminal of any width, and in a pipe."""

from __future__ import annotations

import io

import pytest

from gradsync.draw.console import say

SENTENCE = "runs/20261118-logistic-ddp-2w: failed on rank 1: OSError: 0.0031 ± 0.0016 of 7,850 parameters are there."


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(text: str, file: io.StringIO) -> str:
    say(text, file)
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_on_a_terminal_no_number_and_no_name_is_split(monkeypatch: pytest.MonkeyPatch, width: int):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = said(SENTENCE, Terminal()).splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(lines) == SENTENCE
    assert any("0.0031 ± 0.0016" in line for line in lines)


def test_a_traceback_stays_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "20")
    code = '  File "/somewhere/far/away/own.py", line 3, in build'
    assert said(f"own.py raised an error:\n\n{code}", Terminal()).splitlines() == [
        "own.py raised an",
        "error:",
        "",
        code,
    ]


def test_in_a_pipe_a_sentence_is_a_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert said(SENTENCE, io.StringIO()) == f"{SENTENCE}\n"
