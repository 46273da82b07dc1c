"""The small changes that make a fault: each finds its places in a syntax tree.

`DRAWN` are drawn by machine: nearly each of them is a fault. `KINDS` has more, for the lists: the
undo that is dropped, the loop that ends after its first turn, the member that stands for all.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
LABEL_CHARACTERS_MAX = 60


@dataclass(frozen=True, slots=True)
class Edit:
    """A stretch of the source, from and to a position in its bytes, and what replaces it."""

    start: int
    end: int
    text: str
    label: str
    """A few words of the source that tell it from other edits of its kind in its function."""


class Source:
    """A parsed file, by positions in its bytes."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.content = text.encode()
        self.tree = ast.parse(text)
        self.starts = [0]
        for line in self.content.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.members = _members(self.tree)

    def start(self, node: "Node") -> int:
        """Where `node` begins."""
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: "Node") -> int:
        """Where `node` ends."""
        line, column = node.end_lineno, node.end_col_offset
        if line is None or column is None:
            raise ValueError(f"{self.file}: a node without an end")
        return self.starts[line - 1] + column

    def text(self, node: "Node") -> str:
        """The source of `node`."""
        return self.content[self.start(node) : self.end(node)].decode()

    def line_of(self, position: int) -> int:
        """The number of the line that holds `position`, from 1."""
        return self.content.count(b"\n", 0, position) + 1

    def replaced(self, node: "Node", text: str, label: str) -> Edit:
        """`node` replaced by `text`."""
        return Edit(self.start(node), self.end(node), text, shortened(label))


Node = ast.expr | ast.stmt | ast.keyword | ast.pattern


def shortened(label: str) -> str:
    """`label` on one line, cut where it would be long to quote."""
    line = " ".join(label.split())
    return line if len(line) <= LABEL_CHARACTERS_MAX else line[: LABEL_CHARACTERS_MAX - 1] + "…"


def _members(tree: ast.Module) -> dict[str, list[str]]:
    """Constants that the file takes from each class, as `State.OPEN`, in alphabetical order."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if _is_member(name, attr):
                found.setdefault(name, set()).add(attr)
    return {name: sorted(members) for name, members in found.items()}


def _is_member(name: str, attr: str) -> bool:
    return name[:1].isupper() and not name.isupper() and attr.isupper() and len(attr) > 1


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
        label = shortened(f"{source.text(left)} {old} {source.text(right)}")
        yield Edit(begin + place.start(), begin + place.end(), new, label)


def _connective(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.BoolOp):
        return
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in pairwise(node.values):
        yield from _between(source, left, right, old, new)


def _constant(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        for value in (node.value + 1, node.value - 1):
            # Before an attribute or within a power a sign would bind otherwise.
            text = str(value) if value >= 0 else f"({value})"
            yield source.replaced(node, text, f"{node.value} to {value}")


def _operand(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ARITHMETIC):
        return
    if _is_text(node.left) or not isinstance(node.right, ast.Name | ast.Attribute):
        return
    for sign in "+-":
        text = f"({source.text(node.right)} {sign} 1)"
        yield source.replaced(node.right, text, f"{source.text(node)} {sign} 1")


def _dropped_factor(source: Source, node: ast.AST) -> Iterator[Edit]:
    """A product or a quotient without its right side: a wrong unit."""
    match node:
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv()) if not _is_text(node.left):
            yield source.replaced(node, f"({source.text(node.left)})", source.text(node))


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
        case (
            ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call))
        ):
            yield source.replaced(node, "pass", source.text(call.func))


def _swapped(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.Call) or any(isinstance(arg, ast.Starred) for arg in node.args):
        return
    if isinstance(node.func, ast.Name) and node.func.id in ORDERLESS:
        return
    for first, second in pairwise(node.args):
        one, other = source.text(first), source.text(second)
        if one != other:
            yield _exchanged(source, first, second, f"{source.text(node.func)} {one}, {other}")


def _exchanged(source: Source, first: Node, second: Node, label: str) -> Edit:
    between = source.content[source.end(first) : source.start(second)].decode()
    text = source.text(second) + between + source.text(first)
    return Edit(source.start(first), source.end(second), text, shortened(label))


def _denial(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start = source.start(node)
        yield Edit(start, start + len("not "), "", shortened(source.text(node.operand)))


def _flipped_return(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Return(value=ast.Constant(value=bool(value)) as constant):
            yield source.replaced(constant, str(not value), str(value))


def _flipped_boolean(source: Source, node: ast.AST) -> Iterator[Edit]:
    values: list[tuple[str, ast.expr | None]] = []
    match node:
        case ast.keyword(arg=str(name)):
            values = [(f"{name}=", node.value)]
        case ast.Assign(targets=[target]):
            values = [(f"{source.text(target)} = ", node.value)]
        case ast.AnnAssign():
            values = [(f"{source.text(node.target)} = ", node.value)]
        case ast.Call():
            values = [(f"{source.text(node.func)} ", arg) for arg in node.args]
    for label, value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, bool):
            yield source.replaced(value, str(not value.value), f"{label}{value.value}")


def _condition(source: Source, node: ast.AST) -> Iterator[Edit]:
    """A condition that always holds, and one that never does; a loop would not end by the first."""
    tests: list[ast.expr] = []
    match node:
        case ast.If() | ast.IfExp() | ast.While():
            tests = [node.test]
        case ast.comprehension():
            tests = node.ifs
        case ast.match_case(guard=ast.expr() as guard):
            tests = [guard]
    for test in tests:
        if not isinstance(node, ast.While):
            yield source.replaced(test, "True", f"always {source.text(test)}")
        yield source.replaced(test, "False", f"never {source.text(test)}")


def _dropped_operand(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.BoolOp):
        return
    word = " and " if isinstance(node.op, ast.And) else " or "
    for dropped in node.values:
        kept = [f"({source.text(value)})" for value in node.values if value is not dropped]
        yield source.replaced(node, word.join(kept), source.text(dropped))


def _one_less(source: Source, nodes: Sequence[Node]) -> Iterator[Edit]:
    """Leave out one of `nodes`, with what stands between it and the next, or the one before."""
    for place, node in enumerate(nodes):
        begin, end = source.start(node), source.end(node)
        if place:
            begin = source.end(nodes[place - 1])
        elif len(nodes) > 1:
            end = source.start(nodes[1])
        yield Edit(begin, end, "", shortened(source.text(node)))


def _dropped_statement(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target]):
            yield source.replaced(node, "pass", f"{source.text(target)} =")
        case ast.AugAssign() | ast.Delete() | ast.Raise() | ast.Return(value=None):
            yield source.replaced(node, "pass", source.text(node))


def _reordered(source: Source, node: ast.AST) -> Iterator[Edit]:
    """Two statements in turn that each do something, the second before the first."""
    for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
        if not isinstance(block, list):
            continue
        for first, second in pairwise(block):
            if _acts(first) and _acts(second):
                label = f"{source.text(second)} before {source.text(first)}"
                yield _exchanged(source, first, second, label)


def _acts(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete():
            return True
        case ast.With() | ast.AsyncWith():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return False


def _empty_body(source: Source, node: ast.AST) -> Iterator[Edit]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    gives_nothing = isinstance(node.returns, ast.Constant) and node.returns.value is None
    if gives_nothing and body:
        yield Edit(source.start(body[0]), source.end(body[-1]), "pass", node.name)


def _first_only(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.For() | ast.comprehension(is_async=0):
            text = source.text(node.iter)
            yield source.replaced(node.iter, f"list({text})[:1]", text)


def _dropped_keyword(source: Source, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Call):
        given: list[Node] = [*node.args, *node.keywords]
        for edit, one in zip(_one_less(source, given), given, strict=True):
            if isinstance(one, ast.keyword) and one.arg:
                label = shortened(f"{source.text(node.func)} {one.arg}")
                yield Edit(edit.start, edit.end, edit.text, label)


def _member(source: Source, node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if _is_member(name, attr):
            members = source.members[name]
            other = members[(members.index(attr) + 1) % len(members)]
            if other != attr:
                yield source.replaced(node, f"{name}.{other}", f"{name}.{attr}")


def _dropped_element(source: Source, node: ast.AST) -> Iterator[Edit]:
    """A member of several less: alternatives, caught errors, a set, what may be contained."""
    several: Sequence[Node] = []
    match node:
        case ast.MatchOr(patterns=patterns):
            several = patterns
        case ast.ExceptHandler(type=ast.Tuple(elts=elements)) | ast.Set(elts=elements):
            several = elements
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[ast.Tuple(elts=elements)]):
            several = elements
    if len(several) > 2 or (several and isinstance(node, ast.Set | ast.MatchOr)):
        yield from _one_less(source, several)
    elif len(several) == 2:
        first, second = several
        yield Edit(source.end(first), source.end(second), ",", shortened(source.text(second)))
        text, label = f"{source.text(second)},", shortened(source.text(first))
        yield Edit(source.start(first), source.end(second), text, label)


Operator = Callable[[Source, ast.AST], Iterable[Edit]]
DRAWN: dict[str, Operator] = {
    "comparison": _comparison,
    "and/or": _connective,
    "constant": _constant,
    "operand": _operand,
    "dropped call": _dropped_call,
    "swapped arguments": _swapped,
    "not": _denial,
    "return": _flipped_return,
}
KINDS: dict[str, Operator] = DRAWN | {
    "boolean": _flipped_boolean,
    "condition": _condition,
    "dropped operand": _dropped_operand,
    "dropped statement": _dropped_statement,
    "dropped keyword": _dropped_keyword,
    "dropped factor": _dropped_factor,
    "dropped element": _dropped_element,
    "reordered": _reordered,
    "empty body": _empty_body,
    "first only": _first_only,
    "member": _member,
}
