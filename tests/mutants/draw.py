"""Faults drawn by machine: small changes of the source, found in its syntax tree.

Never touched: docstrings and other text, annotations, decorators, `__repr__` and `__str__`, calls
of a logger, functions that numba compiles, and `invariant(...)`, which holds unless something else
is broken.
"""

import ast
import random
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from tests.mutants.faults import SOURCE, Drawn
from tests.mutants.operators import DRAWN, Edit, Operator, Source

LEFT_OUT = (
    "src/headrace/posix/zookeeper/connection.py",
    "src/headrace/posix/zookeeper/zookeeper_store.py",
    "src/headrace/kernels/*_numba.py",
    "src/headrace/kernels/*_kernel.py",
    "src/headrace/kernels/memory.py",
    "src/headrace/kernels/same_shape.py",
    "src/headrace/kernels/decode_batches.py",
)
"""ZooKeeper's tests need minutes and a Java; what numba compiles is not seen to run."""


@dataclass(frozen=True, slots=True)
class Place:
    """The function or class a node stands in, and the lines of its statement without a body."""

    function: str
    first: int
    last: int
    at_import: bool = True
    """Whether no function is around it."""


def faults_of(
    file: str, text: str, operators: Mapping[str, Operator] = DRAWN, symbol: str | None = None
) -> list[Drawn]:
    """Every fault that `operators` make in `text`, or in one function of it, in its order.

    Those of a kind and a function that would be called the same are numbered.
    """
    source = Source(file, text)
    found = [
        _fault(source, edit, kind, place)
        for node, place in _touchable(source.tree, Place("", 1, 1))
        if symbol in (None, place.function)
        for kind, make in operators.items()
        for edit in make(source, node)
    ]
    found.sort(key=lambda fault: (fault.line, fault.kind, fault.new))
    count = Counter(fault.key for fault in found)
    number: Counter[tuple[str, str, str]] = Counter()
    for place, fault in enumerate(found):
        if count[fault.key] > 1:
            number[fault.key] += 1
            found[place] = replace(fault, label=f"{fault.label} #{number[fault.key]}")
    return found


def _fault(source: Source, edit: Edit, kind: str, place: Place) -> Drawn:
    """`edit` as whole lines: what stood there, and what stands there now."""
    first = source.line_of(edit.start)
    last = source.line_of(max(edit.start, edit.end - 1))
    begin, finish = source.starts[first - 1], source.starts[last]
    new = source.content[begin : edit.start] + edit.text.encode()
    new += source.content[edit.end : finish]
    return Drawn(
        file=source.file,
        function=place.function,
        kind=kind,
        label=edit.label,
        line=first,
        last_line=last,
        old=source.content[begin:finish].decode().rstrip("\n"),
        new=new.decode().rstrip("\n"),
        run=(min(place.first, first), max(place.last, last)),
        at_import=place.at_import,
    )


def draw(root: Path, count: int, seed: int, changed: frozenset[str] = frozenset()) -> list[Drawn]:
    """`count` faults in as many lines: each line is as likely, whatever can be changed in it.

    Half of them in the files `changed`, where there are any.
    """
    chance = random.Random(seed)
    places: list[list[Drawn]] = []
    for file in drawn_from(root):
        by_line: dict[int, list[Drawn]] = {}
        for fault in faults_of(file, (root / file).read_text()):
            by_line.setdefault(fault.line, []).append(fault)
        places += by_line.values()
    young = [place for place in places if place[0].file in changed]
    chosen = chance.sample(young, min(count // 2, len(young)))
    taken = {id(place) for place in chosen}
    others = [place for place in places if id(place) not in taken]
    chosen += chance.sample(others, min(count - len(chosen), len(others)))
    return [chance.choice(place) for place in chosen]


def drawn_from(root: Path) -> list[str]:
    """The files of the source that faults are drawn in."""
    files = [path.relative_to(root).as_posix() for path in (root / SOURCE).rglob("*.py")]
    return sorted(file for file in files if not any(fnmatch(file, pattern) for pattern in LEFT_OUT))


def changed_since(root: Path, commit: str) -> frozenset[str]:
    """Files of the source that are not as they were at `commit`; a new name alone is no change."""
    command = ["git", "diff", "--name-status", "-M", commit, "--", "src/headrace"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    rows = [line.split("\t") for line in listed.splitlines()]
    return frozenset(row[-1] for row in rows if row[0] not in ("D", "R100"))


def _touchable(node: ast.AST, place: Place) -> Iterator[tuple[ast.AST, Place]]:
    """Nodes that may be changed, each with where it stands."""
    for child in _children(node):
        if _is_quiet(child):
            continue
        inside = _place(child, place) if isinstance(child, ast.stmt) else place
        yield child, inside
        yield from _touchable(child, inside)


def _place(statement: ast.stmt, around: Place) -> Place:
    function, at_import = around.function, around.at_import
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{statement.name}" if function else statement.name
        at_import = at_import and isinstance(statement, ast.ClassDef)
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if body:
        below = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
        last = max(first, below.lineno - 1)
    return Place(function, first, last, at_import)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    left_out: set[int] = set()
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            left_out = {id(part) for part in [node.returns, *node.decorator_list]}
        case ast.ClassDef():
            left_out = {id(part) for part in [*node.bases, *node.decorator_list]}
        case ast.AnnAssign() | ast.arg():
            left_out = {id(node.annotation)}
    for child in ast.iter_child_nodes(node):
        if id(child) not in left_out:
            yield child


def _is_quiet(node: ast.AST) -> bool:
    """Whether a change within `node` is none, or only one of words."""
    match node:
        # Positions within an f-string are wrong before Python 3.12.
        case ast.JoinedStr():
            return True
        case ast.FunctionDef(name="__repr__" | "__str__"):
            return True
        case ast.FunctionDef(decorator_list=decorators):
            return any(_compiles(decorator) for decorator in decorators)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(func=ast.Name(id="invariant" | "NewType" | "TypeVar" | "cast")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return "logger" in name.lower() or name == "logging"
        case ast.Expr(value=ast.Call() as call):
            return _is_quiet(call)
    return False


def _compiles(decorator: ast.expr) -> bool:
    """Whether what it decorates is numba's: coverage cannot see it run."""
    return any(word in ast.unparse(decorator) for word in ("jit", "intrinsic"))
