"""Digests of a project's Python functions, which Spark's plan shows by name only.

The digest covers the function's syntax tree without comments and docstrings, and the project's
functions, classes and constants that it refers to. Functions of installed packages count by name.
"""

from __future__ import annotations

import ast
import functools
import sys
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def function_digest(function: object, directory: Path) -> str:
    """Return a digest of a function and of what it refers to below `directory`."""
    parts = "\n".join(_parts(function, f"{directory}/", set()))
    return sha256(parts.encode()).hexdigest()[:16]


def _parts(value: object, directory: str, seen: set[object]) -> Iterator[str]:
    if isinstance(value, functools.partial):
        yield from _parts([value.func, value.args, value.keywords], directory, seen)
    elif isinstance(value, dict):
        for key in sorted(value, key=repr):
            yield repr(key)
            yield from _parts(value[key], directory, seen)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each, directory, seen)
    elif isinstance(value, set | frozenset):
        yield repr(sorted(value, key=repr))
    elif isinstance(value, FunctionType):
        yield from _function(value, directory, seen)
    elif isinstance(value, type):
        yield from _class(value, directory, seen)
    elif isinstance(inner := getattr(value, "func", None), FunctionType):
        yield from _function(inner, directory, seen)  # a function that `udf` has wrapped
    else:
        yield _constant(value)


def _function(function: FunctionType, directory: str, seen: set[object]) -> Iterator[str]:
    code = function.__code__
    if not code.co_filename.startswith(directory):
        yield f"{function.__module__}.{function.__qualname__}"
        return
    if code in seen:
        return
    seen.add(code)
    yield _source(code)
    yield from _parts([function.__defaults__, function.__kwdefaults__], directory, seen)
    for cell in function.__closure__ or ():
        try:
            content = cell.cell_contents
        except ValueError:  # The enclosing function has not assigned it.
            continue
        yield from _parts(content, directory, seen)
    yield from _globals(_names(code), function.__globals__, directory, seen)


def _globals(
    names: Iterable[str], known: dict[str, Any], directory: str, seen: set[object]
) -> Iterator[str]:
    names = sorted(set(names))
    for name in names:
        if name not in known:
            continue
        yield name
        value = known[name]
        file = getattr(value, "__file__", None)
        if isinstance(value, ModuleType) and file is not None and file.startswith(directory):
            yield from _globals(
                [each for each in names if each != name], vars(value), directory, seen
            )
        else:
            yield from _parts(value, directory, seen)


def _class(found: type, directory: str, seen: set[object]) -> Iterator[str]:
    module = sys.modules.get(found.__module__)
    file = getattr(module, "__file__", None)
    yield f"{found.__module__}.{found.__qualname__}"
    if found in seen or file is None or not file.startswith(directory):
        return
    seen.add(found)
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.ClassDef) and node.name == found.__name__:
            yield ast.unparse(node)
    for method in vars(found).values():
        inner = getattr(method, "__func__", method)
        if isinstance(inner, FunctionType):
            yield from _function(inner, directory, seen)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _source(code: CodeType) -> str:
    """Return a function's syntax tree as text, or its byte code if its file is gone."""
    try:
        tree = _tree(code.co_filename)
    except (OSError, SyntaxError):
        return f"{code.co_code.hex()} {code.co_consts!r}"
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == code.co_firstlineno and node.name == code.co_name:
                found.append(ast.unparse(_bare(node)))
        elif isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno:
            found.append(ast.unparse(node))
    return "\n".join(found)


def _bare(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
    """Return a function without its docstring."""
    if ast.get_docstring(node) is not None:
        node.body = node.body[1:] or [ast.Pass()]
    return node


def _tree(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def _constant(value: object) -> str:
    """Return a constant's text; of objects whose text has an address, the type's name."""
    text = repr(value)
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}" if " at 0x" in text else text
