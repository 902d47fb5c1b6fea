"""The flags of every command: each has help, a group, and a default that can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gradsync.cli.arguments import described, parse
from gradsync.cli.commands import Gradsync, Train
from gradsync.cli.flags import GROUP_OF, GROUPS, Flag, flags_of
from gradsync.config import RunConfig


def leaves(kind: Any = Gradsync, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, item in getattr(kind, "actions", {}).items():
        yield from leaves(item, (*words, name))
    if not hasattr(kind, "actions"):
        yield words, kind


COMMANDS = dict(leaves())


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parse([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_a_sentence_and_a_real_default_for_every_flag(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    said = helped(capsys, *words)
    body = said.splitlines()[1:]  # the usage line names every command
    assert [line for line in body if len(line) > 80] == []
    assert "default: None" not in said and "{fixed}" not in said and "default: )" not in said
    for item in flags_of(COMMANDS[words]):
        assert item.help, item
        assert not (item.hint and "Default:" in item.help), item
        assert all(name in said for name in item.spellings), item


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_has_no_number_that_could_be_split(words: tuple[str, ...]):
    """The parser breaks lines behind commas."""
    thousands = re.compile(r"(?<![\d,])\d{1,3},\d{3}(?![\d,])")
    assert [item.help for item in flags_of(COMMANDS[words]) if thousands.search(item.help)] == []


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_says_in_a_line_what_it_does(words: tuple[str, ...]):
    assert 10 < len(described(COMMANDS[words])) <= 80


def test_flags_are_in_groups_in_their_order(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = helped(capsys, "train")
    places = [said.index(f" {group} options ") for group in GROUPS]
    assert places == sorted(places)
    first = {"what": "--model", "how": "--batch-size", "where": "--device", "measuring": "--eval", "output": "--out"}
    for group, place in zip(first, places, strict=True):
        assert place < said.index(f" {first[group]}", place) < place + 400


def test_every_setting_of_a_run_has_a_group():
    assert [item.name for item in flags_of(RunConfig) if item.name not in GROUP_OF] == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [("eval", "on"), ("sync_bn", "off"), ("timeout", "60"), ("decay_epochs", "30,60,80"), ("model", "vgg11")],
)
def test_a_default_is_shown_as_it_is_typed(name: str, hint: str):
    assert flag_of(name).hint == f"(default: {hint})"


def test_what_is_not_set_shows_no_default():
    assert [flag_of(name).hint for name in ("lr", "hosts", "options", "json")] == ["", "", "", ""]


def flag_of(name: str) -> Flag:
    return next(item for item in flags_of(Train) if item.name == name)
