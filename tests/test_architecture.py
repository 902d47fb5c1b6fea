"""The arrows of the house: which room may import which; and that every idea is written down in one place."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "gradsync"

BASE = {"errors", "parent", "text", "version"}
ALLOWED = {
    "config": BASE,
    "record": BASE | {"config"},
    "ledger": BASE | {"config", "record"},
    "meter": BASE | {"ledger", "record"},
    "figures": BASE | {"config", "ledger", "record"},
    "comm": BASE | {"ledger", "meter"},
    "strategies": BASE | {"comm", "config", "ledger"},
    "models": BASE | {"config"},
    "data": BASE | {"config", "record"},
    "train": BASE | {"config", "data", "models", "record", "strategies"},
    "rank": BASE | {"comm", "config", "data", "meter", "models", "record", "strategies", "train"},
    "observe": BASE | {"comm", "config", "launch", "ledger", "library", "live", "meter", "models", "rank", "record"},
    "cluster": BASE | {"config", "record"},
    "launch": BASE | {"cluster", "config", "ledger", "rank", "record"},
    "exhibit": BASE | {"cluster", "config", "figures", "ledger", "record"},
    "draw": BASE | {"exhibit", "figures", "ledger", "record"},
    "live": BASE | {"config", "draw", "exhibit", "figures", "ledger", "record"},
    "study": BASE | {"config", "exhibit", "figures", "launch", "ledger", "record"},
    "library": BASE
    | {"cluster", "comm", "config", "data", "draw", "exhibit", "figures", "launch", "ledger", "live", "meter"}
    | {"models", "rank", "record", "strategies", "study", "train"},
    "testing": BASE
    | {"comm", "config", "draw", "exhibit", "library", "live", "rank", "record", "strategies", "study"},
}
STANDARD_LIBRARY_ONLY: dict[str, set[str]] = {
    "config": {"cloudpickle", "tomli", "torch"},
    **{part: set() for part in ("record", "ledger", "errors", "text")},
}
WITHOUT_TORCH = {"cli", "cluster", "draw", "exhibit", "figures", "ledger", "live", "record", "study"}  # at import
PARTS = ("src", "tests", "benchmarks", "docs")
WITH_WORDS = (".py", ".toml", ".jinja", ".js", ".md", ".ipynb")
MOST_FILES = 12
MOST_LOOSE = 5


def imports(path: Path, *, top_level: bool = False) -> set[str]:
    tree = parsed(path)
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
    assert parts - {"__init__", "cli"} == set(ALLOWED) | BASE


@pytest.mark.parametrize("part", sorted(STANDARD_LIBRARY_ONLY))
def test_config_and_record_need_the_standard_library_only(part: str):
    for path in files(part):
        roots = {name.split(".")[0] for name in imports(path)}
        assert roots <= set(sys.stdlib_module_names) | {"gradsync"} | STANDARD_LIBRARY_ONLY[part]


@pytest.mark.parametrize("part", sorted(WITHOUT_TORCH))
def test_what_runs_before_or_without_training_does_not_import_torch(part: str):
    for path in files(part):
        assert not {name for name in imports(path, top_level=True) if name.split(".")[0] == "torch"}


def test_few_modules_stand_alone():
    assert len(list(SOURCE.glob("*.py"))) <= MOST_LOOSE


def test_no_folder_has_many_files():
    """Of those that git tracks, pages and data files included."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs the repository")
    listed = subprocess.run(["git", "ls-files", *PARTS], cwd=ROOT, capture_output=True, text=True, check=True)
    counts = Counter(str(Path(name).parent) for name in listed.stdout.splitlines())
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


TOPICS = {  # of several modules of a room
    "cluster/test_damaged",
    "data/test_real_data",
    "draw/test_document",
    "launch/test_ends",
    "launch/test_listening",
    "launch/test_nodes",
    "launch/test_servers",
    "observe/test_launchers",
    "observe/test_three_ranks",
    "record/test_damaged_runs",
    "strategies/test_conformance",
    "strategies/test_detach",
    "strategies/test_own_loop",
    "strategies/test_uneven_loop",
}


def test_tests_have_the_names_of_what_they_test():
    """tests/ROOM/test_MODULE.py tests src/gradsync/ROOM/MODULE.py, or the room where the name is the room's."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        room, name = path.parent, path.stem.removesuffix("_integration").removeprefix("test_")
        place = SOURCE / room.relative_to(ROOT / "tests")
        is_of_module = (place / f"{name}.py").exists() or (place / name / "__init__.py").exists()
        if room != ROOT / "tests" and not is_of_module and name != room.name:
            found.add(f"{room.relative_to(ROOT / 'tests').as_posix()}/test_{name}")
    assert found == TOPICS


def test_only_comm_and_world_call_collectives():
    """What observes a script replaces its collectives by stamped ones, and sends through comm."""
    for path in SOURCE.rglob("*.py"):
        if path.parent.name not in ("comm", "observe") and path.name != "world.py":
            assert "torch.distributed" not in imports(path), path


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    """Of all files."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield from ((path, node) for node in ast.walk(parsed(path)))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def defined(name: str) -> list[str]:
    """Where there is a function of this name."""
    return [place(path) for path, node in nodes() if isinstance(node, ast.FunctionDef) and node.name == name]


def calling(pattern: str) -> set[str]:
    """Files with text like this."""
    return {place(path) for path in SOURCE.rglob("*.py") if re.search(pattern, path.read_text())}


def test_a_speed_up_is_defined_once():
    assert defined("speed_up") == ["figures/catalogue/of_speed_up.py"]


def test_wait_and_wire_are_split_in_one_place():
    """Where a piece of time is made that is one of them."""
    makers = {
        place(path)
        for path, node in nodes()
        if isinstance(node, ast.Tuple) and len(node.elts) > 1 and is_part(node.elts[0]) and not is_text(node.elts[1])
    }
    assert makers == {"ledger/spans.py"}


def is_part(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("wait", "wire")


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_the_share_of_a_ring_is_worked_out_in_one_place():
    """2 (N - 1) / N."""
    assert {place(path) for path, node in nodes() if is_share_of_others(node)} == {"ledger/cost.py"}


def is_share_of_others(node: ast.AST) -> bool:
    """(x - 1) / x, times anything."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)):
        return False
    return any(
        isinstance(item, ast.BinOp)
        and isinstance(item.op, ast.Sub)
        and isinstance(item.right, ast.Constant)
        and item.right.value == 1
        and ast.dump(item.left) == ast.dump(node.right)
        for item in ast.walk(node.left)
    )


LISTING_SOMETHING_ELSE = {
    "meter/connections.py",  # /proc/self/fd
    "cluster/groups.py",  # /sys/fs/cgroup
    "cluster/namespaces.py",  # /run/netns and /proc
    "cluster/spec.py",  # the clusters that are up
    "launch/processes.py",  # /proc
    "launch/mpi/leftovers.py",  # /dev/shm and /proc
    "launch/__init__.py",  # the logs of one run
    "observe/started/folder.py",  # traces of processes
}


def test_one_walker_finds_runs_and_studies():
    """Only the record looks for runs in folders."""
    listing = calling(r"\b(iterdir|r?glob|scandir|listdir)\(")
    assert {name for name in listing if not name.startswith("record/")} == LISTING_SOMETHING_ELSE
    assert defined("walk") == ["record/walk.py"]
    assert not calling(r"\bos\.walk\b")


def test_one_writer_replaces_files_and_no_lock_is_our_own():
    assert calling(r"\bos\.(replace|renames?)\b|\.rename\(|\bshutil\.move\b") == {"record/writing.py"}
    assert not [path for path in SOURCE.rglob("*.py") if "fcntl" in imports(path)]


WRITING_SOMETHING_ELSE = {
    "launch/torchrun.py",  # the log of torchrun, while it runs
    "launch/processes.py",  # those of mpiexec and srun
    "meter/host.py",  # /proc/self/clear_refs
    "cluster/groups.py",  # /sys/fs/cgroup
    "cluster/namespaces.py",  # /proc/sys
    "cluster/privilege.py",  # /proc/self
}


def test_whole_files_are_written_by_the_one_writer():
    """Rows and the output of ranks are appended to their files, line by line."""
    writing = {place(path) for path, node in nodes() if isinstance(node, ast.Call) and is_writing(node)}
    assert writing - {"record/writing.py"} == WRITING_SOMETHING_ELSE


def is_writing(call: ast.Call) -> bool:
    """``path.write_text(...)``, ``open(path, "w")``, ``path.open(mode="xb")``."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [*call.args, *(item.value for item in call.keywords)]
    modes = [str(node.value) for node in given if isinstance(node, ast.Constant)]
    writes = any(re.fullmatch(r"[rwxabt+]+", mode) and set(mode) & set("wx+") for mode in modes)
    return name in ("write_text", "write_bytes") or (name == "open" and writes)


def test_commands_print_json_in_one_way():
    assert {name for name in calling(r"\bjson\.dumps?\(") if name.startswith("cli/")} == set()
    assert defined("strict_json") == ["record/folder.py"]


def test_the_reports_have_no_private_name():
    """A seed is a number with which random streams begin."""
    private = re.compile(
        r"(?<![a-z])(the|our|five|four|both)[ _]seeds(?![a-z])|(?<!')\bseeds?'|\bseed \d{2,}", re.IGNORECASE
    )
    files = [path for part in PARTS for path in (ROOT / part).rglob("*") if path.suffix in WITH_WORDS]
    assert [path.name for path in (ROOT / "README.md", *files) if private.search(path.read_text())] == []


IMPORT_EACH_FIRST = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [one for one in sys.modules if one.partition(".")[0] == "gradsync"]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


def test_every_module_can_be_the_first_that_is_imported():
    """No circle that only works when it is entered from one side."""
    rooms = ("record", "ledger", "figures", "exhibit")
    paths = [path.relative_to(SOURCE.parent).with_suffix("") for room in rooms for path in files(room)]
    names = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    command = [sys.executable, "-c", IMPORT_EACH_FIRST, *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_git_leaves_no_source_aside():
    """A line such as runs/ in .gitignore hides every folder of that name."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs the repository")
    folders = [ROOT / part for part in ("src", "tests", "docs", "benchmarks")]
    paths = [str(path) for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md", ".toml")]
    command = ["git", "check-ignore", "--stdin"]
    told = subprocess.run(command, cwd=ROOT, input="\n".join(paths), capture_output=True, text=True)
    assert told.returncode == 1, told.stdout + told.stderr
