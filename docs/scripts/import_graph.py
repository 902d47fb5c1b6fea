"""Draws into docs/internals/design.md which package ("room") of src/gradsync imports which. A cycle is an error.

python docs/scripts/import_graph.py writes the graph; with --check it only checks that the page is up to date.
"""

from __future__ import annotations

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from marked import write_or_check

SOURCE = Path(__file__).parents[2] / "src" / "gradsync"
Graph = dict[str, set[str]]


def rooms() -> list[str]:
    return sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def imported_by(path: Path) -> set[str]:
    """The rooms and top-level modules of gradsync that a file imports, anywhere in it."""
    modules = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
    return {module.split(".")[1] for module in modules if module.startswith("gradsync.")}


def read_graph() -> Graph:
    """Room -> the rooms it imports. The top-level modules are left out: every room may import them."""
    every = set(rooms())
    return {
        room: set().union(*map(imported_by, (SOURCE / room).rglob("*.py"))) & every - {room} for room in sorted(every)
    }


def reached_from(graph: Graph, room: str) -> set[str]:
    return set().union(*({below} | reached_from(graph, below) for below in graph[room]))


def direct_arrows(graph: Graph) -> list[tuple[str, str]]:
    """The arrows that are not implied by others: an import that a longer path also leads to is not drawn."""
    return [
        (room, below)
        for room in graph
        for below in sorted(graph[room])
        if not any(below in reached_from(graph, other) for other in graph[room] - {below})
    ]


def height(graph: Graph, room: str) -> int:
    """The number of rooms on the longest chain of imports below it."""
    return max((1 + height(graph, below) for below in graph[room]), default=0)


def purpose(room: str) -> str:
    """The first paragraph of the docstring of the room."""
    words = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text())) or ""
    return " ".join(words.split("\n\n")[0].split()).replace("``", "`")


def drawn(graph: Graph) -> str:
    """The graph and the table, ordered from top to bottom: every arrow points downwards."""
    order = sorted(graph, key=lambda room: (-height(graph, room), room))
    arrows = sorted(direct_arrows(graph), key=lambda arrow: order.index(arrow[0]))
    lines = ["```mermaid", "flowchart TD", *(f"    {room} --> {below}" for room, below in arrows), "```", ""]
    lines += ["| package | what it is | imports |", "|---|---|---|"]
    lines += [f"| `{room}/` | {purpose(room)} | {', '.join(sorted(graph[room])) or '–'} |" for room in order]
    return "\n".join(lines)


def main() -> int:
    graph = read_graph()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as cycle:
        print(f"The packages import each other in a cycle: {' -> '.join(cycle.args[1])}.", file=sys.stderr)
        return 1
    return write_or_check("internals/design.md", "import graph", drawn(graph), Path(__file__).name)


if __name__ == "__main__":
    sys.exit(main())
