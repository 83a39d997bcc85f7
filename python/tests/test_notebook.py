"""docs/python.ipynb, run from its first cell to its last."""

import pathlib

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("torch")

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.ipynb"


def test_the_notebook_runs_and_draws(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert 5 <= len(code) <= 10
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    drawn = [output for cell in code for output in cell.outputs
             if "text/html" in output.get("data", {}) and "<svg" in output["data"]["text/html"]]
    assert len(drawn) >= 2
    assert not any("<script" in output["data"]["text/html"] for output in drawn)
