"""A share of benchmarks/proofs/fuzz.py: whatever is typed or written into a file, a command ends with a sentence."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent.parent / "benchmarks" / "proofs"))

import fuzz
from fuzz_cases import Case, command_line, config_file

ENDS = ("refused", "would start", "done", "failed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("fuzz")
    fuzz.prepare(place)
    with pytest.MonkeyPatch.context() as patched, fuzz.nothing_starts(place / "state"):
        patched.chdir(place)
        patched.setenv("GRADSYNC_DATA", str(place / "no-data"))
        yield place


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("make", [command_line, config_file])
def test_no_case_ends_in_a_traceback_or_hangs(make):
    @settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
    @given(seed=st.integers(0, 2**64))
    def tried(seed: int) -> None:
        case = make(random.Random(seed))
        end, said = fuzz.ending(case)
        assert end in ENDS, (case, said)

    tried()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "end"),
    [
        (["train", "--model", "logistic"], "would start"),
        (["train", "--model", "own.py:net", "--data", "own.py:sets"], "would start"),
        (["study", "pareto", "--model", "logistic"], "would start"),
        (["verify"], "would start"),
        (["probe"], "would start"),
        (["cluster", "up", "new"], "would start"),
        (["data", "fetch", "mnist"], "would start"),
        (["show", "runs"], "done"),
        (["train", "--help"], "done"),
        (["train", "--data", "own.py:floats"], "refused"),
    ],
)
def test_the_seam_is_where_processes_begin(words: list[str], end: str):
    assert fuzz.ending(Case(words)) == (end, "")


def test_a_traceback_and_a_hang_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fuzz, "gradsync", lambda argv: 1 / 0)
    assert fuzz.ending(Case([]))[0] == "TRACEBACK"

    def forever(argv: list[str]) -> None:
        while True:
            pass

    monkeypatch.setattr(fuzz, "gradsync", forever)
    assert fuzz.ending(Case([]), limit=0.1)[0] == "HANG"
