"""docs/tutorial.ipynb in a real kernel: what its cells show."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[3] / "docs" / "tutorial.ipynb"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """Of every cell with code."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without its outputs"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("IPYTHONDIR", str(folder / "ipython"))
        environment.setenv("JUPYTER_RUNTIME_DIR", str(folder / "jupyter"))
        NotebookClient(
            notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": folder}}
        ).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def test_no_cell_prints_an_error_or_a_line_of_progress(outputs: list[list[Any]]):
    kinds = {output.output_type for cell in outputs for output in cell}
    assert kinds == {"display_data", "execute_result"}


def test_progress_is_drawn_in_the_cell_and_is_gone_in_the_end(outputs: list[list[Any]]):
    drawn = [output for output in outputs[1] if output.output_type == "display_data"]
    assert [output.data["text/html"] for output in drawn] == [""]


def test_a_run_shows_its_table_and_its_chart(outputs: list[list[Any]]):
    shown = outputs[1][-1].data["text/html"]
    assert "make_model on make_data" in shown
    assert "svg" in picture_in(shown) and "backward" in picture_in(shown)


def test_it_ends_in_a_frame_and_a_chart(outputs: list[list[Any]]):
    frame, chart = (cell[-1].data["text/html"] for cell in outputs[-2:])
    assert 'class="dataframe"' in frame
    assert len(re.findall(r"<td>Half</td>", frame)) == 2 and "accuracy (%)" in frame
    assert "Half" in picture_in(chart)


def picture_in(html: str) -> str:
    found = re.search(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", html)
    assert found
    return b64decode(found[1]).decode()
