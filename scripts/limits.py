"""The limits that no linter knows: sizes, the one ``sys.exit``, the one catch-all, fakes instead of patches.

Prints every breach and leaves with 1 when there is one. Run from anywhere: ``python scripts/limits.py``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE_LINES, FUNCTION_LINES, COMMAND_LINES = 400, 50, 15
PATCHES_PER_TEST = 0.1
MAIN = Path("aeonctl/main.py")
PROGRAMS = ("aeonctl/rehearsal_engine/", "aeonctl/adapters/guard_process.py", "aeonctl/adapters/supervise.py")
"""Programs of their own, which a process runs from their own start to their own exit."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("*.py")))


def lengths(path: Path, text: str, tree: ast.AST) -> Iterator[str]:
    lines = text.count("\n")
    if lines > FILE_LINES and path.parts[0] != "tests":  # a table of cases may be long, a function in it may not
        yield f"{path}: {lines} lines, {FILE_LINES} are allowed"
    for function in functions(tree):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > FUNCTION_LINES:
            yield f"{path}:{function.lineno}: {function.name} has {length} lines, {FUNCTION_LINES} are allowed"


def command_bodies(path: Path, tree: ast.AST) -> Iterator[str]:
    """A command parses, calls one workflow and prints its result; anything longer decides something."""
    for function in functions(tree):
        if not any(ast.unparse(decorator).startswith("app.command(") for decorator in function.decorator_list):
            continue
        first, last = function.body[0], function.body[-1]
        length = (last.end_lineno or last.lineno) - first.lineno + 1
        if length > COMMAND_LINES:
            yield f"{path}:{function.lineno}: command {function.name} has {length} lines, {COMMAND_LINES} are allowed"


def exits(path: Path, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        ends = isinstance(node, ast.Call) and ast.unparse(node.func) in ("sys.exit", "exit", "quit", "os._exit")
        ends = ends or (isinstance(node, ast.Raise) and node.exc is not None and "SystemExit" in ast.unparse(node.exc))
        if ends:
            yield f"{path}:{node.lineno}"  # type: ignore[attr-defined]


def catch_alls(path: Path, tree: ast.AST) -> Iterator[str]:
    """``except:``, and ``except Exception`` or wider; a handler that raises on at its end only passes by."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        names = "" if node.type is None else ast.unparse(node.type)
        wide = node.type is None or re.search(r"\b(Exception|BaseException)\b", names)
        passes_by = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        if wide and not passes_by:
            yield f"{path}:{node.lineno}"


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def only_in_main(what: str, found: list[str]) -> Iterator[str]:
    elsewhere = [place for place in found if not place.startswith(f"{MAIN}:")]
    yield from (f"{place}: {what} outside of {MAIN}" for place in elsewhere)
    if len(found) - len(elsewhere) != 1:
        yield f"{MAIN}: {len(found) - len(elsewhere)} times {what}, and it is meant to be the one place"


def patches() -> Iterator[str]:
    tests = patched = 0
    for path in python_files("tests"):
        text = (ROOT / path).read_text()
        tests += len(re.findall(r"^\s*def test_", text, re.MULTILINE))
        patched += len(re.findall(r"\bmock\.patch|\bpatch\(|\bmonkeypatch\.setattr", text))
    if patched > PATCHES_PER_TEST * tests:
        yield f"tests: {patched} patches in {tests} tests; give a fake to main(argv, ports) instead"


def breaches() -> Iterator[str]:
    leaving: list[str] = []
    catching: list[str] = []
    for path in python_files("aeonctl", "tests", "scripts"):
        text = (ROOT / path).read_text()
        tree = ast.parse(text)
        yield from lengths(path, text, tree)
        if path.parts[0] != "aeonctl":
            continue
        yield from command_bodies(path, tree)
        catching += catch_alls(path, tree)
        if not str(path).startswith(PROGRAMS):
            leaving += exits(path, tree)
    yield from only_in_main("sys.exit", leaving)
    yield from only_in_main("a catch-all", catching)
    yield from patches()


if __name__ == "__main__":
    found = list(breaches())
    print("\n".join(found) or "limits: kept")
    raise SystemExit(1 if found else 0)
