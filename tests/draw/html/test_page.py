"""The page: what is put into it that is not from its document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import vl_convert

from gradsync.draw.html import page


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: f"/* </script> */ {snippet}")
    page.library.cache_clear()
    yield tmp_path
    page.library.cache_clear()


def test_the_library_is_put_together_once_and_cannot_end_its_script(cache: Path, monkeypatch: pytest.MonkeyPatch):
    first = page.library()
    assert first == r"/* <\/script> */ window.vegaEmbed = vegaEmbed;"
    page.library.cache_clear()
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: pytest.fail("it is in the cache"))
    assert page.library() == first
    (kept,) = cache.rglob("vega-*.js")
    assert kept.read_text().startswith("/* </script>"), "as it was put together"


def test_where_the_cache_cannot_be_written_the_page_has_it_all_the_same(cache: Path):
    (cache / "gradsync").write_text("a file where the folder would be")
    assert "vegaEmbed" in page.library()
