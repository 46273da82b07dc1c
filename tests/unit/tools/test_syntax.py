"""The walk over statements that the lints share."""

import ast

from tools.syntax import statements

SOURCE = """
import a
if x:
    import b
elif y:
    import c
else:
    import d
for _ in range(3):
    import e
else:
    import f
while z:
    import g
with open(p) as file:
    import h
try:
    import i
except OSError:
    import j
else:
    import k
finally:
    import l
match x:
    case 1:
        import m
class A:
    import n
    def f(self):
        import o
        async def g():
            import q
"""


def test_statements_of_every_block_are_found() -> None:
    found = [
        node.names[0].name for node in statements(ast.parse(SOURCE)) if isinstance(node, ast.Import)
    ]
    assert sorted(found) == list("abcdefghijklmnoq")


def test_expressions_are_left_out() -> None:
    tree = ast.parse("x = [lambda: y for y in z]\nprint(x)")
    assert [type(node) for node in statements(tree)] == [ast.Module, ast.Assign, ast.Expr]
