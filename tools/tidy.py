"""House rules that no linter knows: sizes, unfinished work, invariants that vanish, fetched files.

Run from the repository's root: prints one line per finding and ends with status 1 if there is any.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bfor now\b")
NO_AWAIT = tuple(
    f"src/headrace/{room}/"
    for room in ("broker", "coordination", "replication", "log", "logtools", "record", "wire")
)


def tracked() -> list[Path]:
    """The Python files of the tree, new ones that git does not ignore included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return [path for name in sorted(set(names)) if (path := Path(name)).is_file()]


def fetched() -> Iterator[str]:
    """Files that are in git though .gitignore names them: what was fetched or built."""
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    yield from (f"{name}:1: in git, though .gitignore names it" for name in names)


def findings(path: Path) -> Iterator[str]:
    """What is wrong in one file, as `file:line: finding`."""
    text = path.read_text()
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"{path}:1: {len(lines)} lines, more than {FILE_LINES_MAX}"
    shipped = str(path).startswith("src/")
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or line) - line + 1
            if size > FUNCTION_LINES_MAX:
                yield f"{path}:{line}: {node.name} has {size} lines, more than {FUNCTION_LINES_MAX}"
        elif shipped and isinstance(node, ast.Assert):
            yield f"{path}:{line}: assert vanishes under -O; use invariant()"
        elif isinstance(node, ast.Await | ast.AsyncFunctionDef) and str(path).startswith(NO_AWAIT):
            yield f"{path}:{line}: this room decides, it does not wait"
    if path != Path("tools/tidy.py"):
        for number, content in enumerate(lines, 1):
            if UNFINISHED.search(content):
                yield f"{path}:{number}: unfinished by its own words: {content.strip()[:60]}"


def main() -> int:
    found = [*fetched(), *(finding for path in tracked() for finding in findings(path))]
    print("\n".join(found) or "tidy: sizes and house rules hold")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
