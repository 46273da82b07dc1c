"""Faults drawn by machine: small changes of the source, found in its syntax tree.

Never touched: docstrings and other text, annotations, decorators, `__repr__` and `__str__`, calls
of a logger, functions that numba compiles, and `invariant(...)`, which holds unless something else
is broken.
"""

import ast
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tests.mutants.faults import Drawn

LEFT_OUT = (
    "src/headrace/spark/*",
    "src/headrace/pipeline/*",
    "src/headrace/posix/zookeeper/connection.py",
    "src/headrace/posix/zookeeper/zookeeper_store.py",
    "src/headrace/kernels/*_numba.py",
    "src/headrace/kernels/*_kernel.py",
    "src/headrace/kernels/memory.py",
    "src/headrace/kernels/same_shape.py",
    "src/headrace/kernels/decode_batches.py",
)
"""Spark's and ZooKeeper's tests need minutes and a Java; what numba compiles is not seen to run."""
COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift)
ORDERLESS = {"min", "max", "gcd"}
"""Calls whose arguments may be swapped without a difference."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A stretch of the source, from and to a position in its bytes, and what replaces it."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """The function or class a node stands in, and the lines of its statement without a body."""

    function: str
    first: int
    last: int


class Source:
    """A parsed file, by positions in its bytes."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.content = text.encode()
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in self.content.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        """Where `node` begins."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        """Where `node` ends."""
        line, column = node.end_lineno, node.end_col_offset
        if line is None or column is None:
            raise ValueError(f"{self.file}: a node without an end")
        return self.starts[line - 1] + column

    def text(self, node: ast.expr | ast.stmt) -> str:
        """The source of `node`."""
        return self.content[self.start(node) : self.end(node)].decode()

    def line_of(self, position: int) -> int:
        """The number of the line that holds `position`, from 1."""
        return self.content.count(b"\n", 0, position) + 1

    def fault(self, edit: Edit, kind: str, place: "Place") -> Drawn:
        """`edit` as whole lines: what stood there, and what stands there now."""
        first = self.line_of(edit.start)
        last = self.line_of(max(edit.start, edit.end - 1))
        begin, finish = self.starts[first - 1], self.starts[last]
        old = self.content[begin:finish]
        new = self.content[begin : edit.start] + edit.text.encode()
        new += self.content[edit.end : finish]
        return Drawn(
            file=self.file,
            function=place.function,
            kind=kind,
            line=first,
            last_line=last,
            old=old.decode().rstrip("\n"),
            new=new.decode().rstrip("\n"),
            run=(min(place.first, first), max(place.last, last)),
        )


def faults_of(file: str, text: str) -> list[Drawn]:
    """Every fault that can be drawn in `text`, in the order of the source."""
    source = Source(file, text)
    found = [
        source.fault(edit, kind, place)
        for node, place in _touchable(source.tree, Place("", 1, 1))
        for kind, make in KINDS.items()
        for edit in make(source, node)
    ]
    return sorted(found, key=lambda fault: (fault.line, fault.kind, fault.new))


def draw(root: Path, count: int, seed: int) -> list[Drawn]:
    """`count` faults in as many lines: each line is as likely, whatever can be changed in it."""
    chance = random.Random(seed)
    places: list[list[Drawn]] = []
    for path in sorted((root / "src" / "headrace").rglob("*.py")):
        file = path.relative_to(root).as_posix()
        if any(fnmatch(file, pattern) for pattern in LEFT_OUT):
            continue
        by_line: dict[int, list[Drawn]] = {}
        for fault in faults_of(file, path.read_text()):
            by_line.setdefault(fault.line, []).append(fault)
        places += by_line.values()
    return [chance.choice(place) for place in chance.sample(places, min(count, len(places)))]


def _touchable(node: ast.AST, place: Place) -> Iterator[tuple[ast.AST, Place]]:
    """Nodes that may be changed, each with where it stands."""
    for child in _children(node):
        if _is_quiet(child):
            continue
        inside = _place(child, place) if isinstance(child, ast.stmt) else place
        yield child, inside
        yield from _touchable(child, inside)


def _place(statement: ast.stmt, around: Place) -> Place:
    function = around.function
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{statement.name}" if function else statement.name
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if body:
        below = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
        last = max(first, below.lineno - 1)
    return Place(function, first, last)


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


def _comparison(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    sides = [node.left, *node.comparators]
    for operator, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
        old, new = COMPARED[type(operator)]
        yield from _between(source, left, right, old, new)


def _between(source: Source, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Edit]:
    """Replace the operator `old` between two operands; not where a comment stands between them."""
    begin, end = source.end(left), source.start(right)
    gap = source.content[begin:end]
    pattern = rb"\s+".join(re.escape(word.encode()) for word in old.split())
    place = re.search(pattern, gap)
    if place is not None and b"#" not in gap:
        yield Edit(begin + place.start(), begin + place.end(), new)


def _connective(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.BoolOp):
        return
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        yield from _between(source, left, right, old, new)


def _constant(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        for value in (node.value + 1, node.value - 1):
            # Before an attribute or within a power a sign would bind otherwise.
            text = str(value) if value >= 0 else f"({value})"
            yield Edit(source.start(node), source.end(node), text)


def _operand(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ARITHMETIC):
        return
    if _is_text(node.left) or not isinstance(node.right, ast.Name | ast.Attribute):
        return
    for sign in "+-":
        text = f"({source.text(node.right)} {sign} 1)"
        yield Edit(source.start(node.right), source.end(node.right), text)


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.JoinedStr() | ast.List() | ast.Tuple() | ast.ListComp():
            return True
        case ast.Constant(value=str() | bytes()):
            return True
        case ast.BinOp():
            return _is_text(node.left) or _is_text(node.right)
    return False


def _dropped_call(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            yield Edit(source.start(node), source.end(node), "pass")


def _swapped(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return
    if isinstance(node.func, ast.Name) and node.func.id in ORDERLESS:
        return
    for first, second in zip(node.args, node.args[1:], strict=False):
        between = source.content[source.end(first) : source.start(second)].decode()
        if source.text(first) != source.text(second):
            text = source.text(second) + between + source.text(first)
            yield Edit(source.start(first), source.end(second), text)


def _denial(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start = source.start(node)
        yield Edit(start, start + len("not "), "")


def _flipped_return(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Return(value=ast.Constant(value=bool(value)) as constant):
            yield Edit(source.start(constant), source.end(constant), str(not value))


KINDS: dict[str, Callable[[Source, ast.AST], Iterable[Edit]]] = {
    "comparison": _comparison,
    "and/or": _connective,
    "constant": _constant,
    "operand": _operand,
    "dropped call": _dropped_call,
    "swapped arguments": _swapped,
    "not": _denial,
    "return": _flipped_return,
}
