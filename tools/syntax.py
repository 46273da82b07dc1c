"""Walks of Python's syntax trees that the lints share."""

import ast
from collections import deque
from collections.abc import Iterator


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree and the statements below it, without the expressions in them."""
    below = deque([tree])
    while below:
        node = below.popleft()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            below.extend(getattr(node, field, ()))
