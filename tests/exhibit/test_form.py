"""What is shown, as plain data."""

from __future__ import annotations

from gradsync.exhibit.form import Section, doubts_first


def test_what_must_be_known_first_is_said_first_and_once():
    sections = [
        Section("one", (), ["fast", "how", "how"]),
        Section("two", (), ["poor fit", "faster", "how"], doubts=["poor fit"]),
    ]
    one, two = doubts_first(sections, ["few cores", "poor fit"])
    assert list(one.sentences) == ["poor fit", "few cores", "fast", "how"]
    assert list(one.doubts) == ["poor fit", "few cores"]
    assert (list(two.sentences), list(two.doubts)) == (["faster"], [])
    assert doubts_first([], ["few cores"]) == []
