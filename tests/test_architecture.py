"""The arrows of the house: which part may import which. A wrong arrow fails here."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "gradsync"

BASE = {"errors", "exhibit", "text", "values", "version", "writing"}
ALLOWED = {
    "config": BASE,
    "record": BASE | {"config"},
    "summary": BASE | {"config", "meter", "record"},
    "meter": BASE | {"record"},
    "parent": set(),
    "plugin": BASE,
    "refused": BASE,
    "slurm_step": BASE,
    "store": set(),
    "world": BASE | {"slurm_step", "store"},
    "comm": BASE | {"meter"},
    "strategies": BASE | {"comm", "config", "plugin", "world"},
    "models": BASE | {"plugin"},
    "data": BASE | {"plugin"},
    "train": BASE | {"config", "data", "models", "record", "strategies"},
    "rank": BASE
    | {"comm", "config", "data", "meter", "models", "parent", "plugin", "record", "strategies", "train", "world"},
    "cluster": BASE | {"config", "parent"},
    "launch": BASE | {"cluster", "config", "parent", "record", "store", "summary", "world"},
    "study": BASE | {"config", "launch", "meter", "parent", "record", "summary"},
    "report": BASE | {"cluster", "config", "meter", "record", "study", "summary"},
    "check": BASE
    | {"cluster", "comm", "config", "data", "launch", "models", "plugin", "strategies", "study", "train", "world"},
}
STANDARD_LIBRARY_ONLY: dict[str, set[str]] = {
    "config": {"tomli"},
    **{part: set() for part in ("record", "summary", "errors", "text", "values", "writing")},
}
WITHOUT_TORCH = {
    "cluster",
    "report",
    "study",
    "arguments",
    "cli",
    "cli_cluster",
    "cli_report",
    "cli_study",
    "commands",
    "refused",
}  # at import
ARITHMETIC = {
    "ledger",
    "stragglers",
    "slow_links",
    "staleness",
    "timeline",
    "figures",
    "trace",
}  # of meter: read records without torch


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files(part: str) -> list[Path]:
    return sorted((SOURCE / part).rglob("*.py")) if (SOURCE / part).is_dir() else [SOURCE / f"{part}.py"]


def parts_imported(path: Path) -> set[str]:
    return {name.split(".")[1] for name in imports(path) if name.startswith("gradsync.")}


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_a_part_imports_only_what_lies_below_it(part: str):
    for path in files(part):
        wrong = parts_imported(path) - ALLOWED[part] - {part}
        assert not wrong, f"{path.name} must not import {wrong}"


def test_every_part_of_the_house_has_its_arrows():
    parts = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert (
        parts - {"__init__", "arguments", "cli", "cli_cluster", "cli_data", "cli_report", "cli_study", "commands"}
        == set(ALLOWED) | BASE
    )


@pytest.mark.parametrize("part", sorted(STANDARD_LIBRARY_ONLY))
def test_config_and_record_need_the_standard_library_only(part: str):
    for path in files(part):
        roots = {name.split(".")[0] for name in imports(path)}
        assert roots <= set(sys.stdlib_module_names) | {"gradsync"} | STANDARD_LIBRARY_ONLY[part]


@pytest.mark.parametrize("part", sorted(WITHOUT_TORCH))
def test_what_runs_before_or_without_training_does_not_import_torch(part: str):
    for path in files(part):
        assert not {name for name in imports(path, top_level=True) if name.split(".")[0] == "torch"}


@pytest.mark.parametrize("name", sorted(ARITHMETIC))
def test_what_reads_stamps_after_a_run_needs_the_standard_library_only(name: str):
    used = imports(SOURCE / "meter" / f"{name}.py")
    assert {item.split(".")[0] for item in used} <= set(sys.stdlib_module_names) | {"gradsync"}
    of_meter = {item.split(".")[2] for item in used if item.startswith("gradsync.meter.")}
    assert of_meter <= ARITHMETIC


def test_only_comm_and_world_call_collectives():
    for path in SOURCE.rglob("*.py"):
        if path.parent.name != "comm" and path.name != "world.py":
            assert "torch.distributed" not in imports(path), path
