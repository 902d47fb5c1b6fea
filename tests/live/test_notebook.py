"""What a cell shows while a run goes on, from rows as they come; tests/library/runs has a real kernel."""

from __future__ import annotations

from gradsync.live.notebook import WatchCell, in_notebook
from made_up import start_row, step_row


def test_a_cell_says_which_run_it_is_and_how_far():
    cell = WatchCell(begun=1, runs=3)
    assert "starting" in cell.html() and "run" not in cell.html()
    cell.show(0, start_row(strategy="<mine>", steps=8))
    cell.show(1, step_row(7))
    assert 'value="0.000"' in cell.html()
    cell.show(0, step_row(2))
    assert 'value="0.250"' in cell.html()
    assert "run 2 of 3: &lt;mine&gt;: step 2 of 8, loss " in cell.html()


def test_a_test_is_no_notebook():
    assert not in_notebook()
