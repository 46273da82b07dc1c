"""ARCHITECTURE.md and the rooms' READMEs name what is there, in the order that lint proves."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/headrace"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
LINES_MAX = 400
README_LINES_MAX = 15
NAMED = re.compile(r"(?<![\w./-])((?:[\w.-]+/)*[\w-]+(?:\.py|/))(?::([A-Za-z_][\w.]*))?(?![\w-])")
"""A file or a folder, and a name in it behind a colon: `log/log.py:Log.append`, `log/segment/`."""


def layers() -> list[list[str]]:
    """The rooms, from above to below; those beside each other together."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (rooms,) = (
        found for found in contracts["contracts"] if found.get("containers") == ["headrace"]
    )
    return [layer.split(" | ") for layer in rooms["layers"]]


ROOMS = [room for layer in layers() for room in layer]
MAPS = [ARCHITECTURE, *(SOURCE / room / "README.md" for room in ROOMS)]


def names(path: Path) -> set[str]:
    """What a module defines: its functions and classes, and the classes' methods."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{method.name}"
                for method in node.body
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return found


def missing(text: str, *places: Path) -> Iterator[str]:
    """What `text` names that is at none of `places`."""
    for path, name in NAMED.findall(text):
        there = [place / path for place in places if (place / path).exists()]
        if not there:
            yield path
        elif name and name not in names(there[0]):
            yield f"{path}:{name}"


def text_of(path: Path) -> str:
    """Without links (whose targets stand beside them) and the listing of a log directory."""
    text = re.sub(r"\]\([^)]*\)", "]", path.read_text())
    return re.sub(r"(?ms)^## On disk$.*?(?=^## )", "", text)


@pytest.mark.parametrize("path", MAPS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_path_and_function_on_the_map_is_there(path: Path) -> None:
    assert not list(missing(text_of(path), path.parent, SOURCE, ROOT))


def test_a_path_or_a_function_that_is_not_there_is_found() -> None:
    text = "`log/log.py:Log.append`, `log/gone.py`, `log/log.py:Log.gone`, `log/gone/`, `log/`"
    expected = ["log/gone.py", "log/log.py:Log.gone", "log/gone/"]
    assert list(missing(text, SOURCE)) == expected


def test_the_map_names_many_places() -> None:
    assert len(NAMED.findall(text_of(ARCHITECTURE))) > 80


def test_the_table_has_the_rooms_in_the_order_of_imports() -> None:
    rows = re.findall(r"(?m)^\| (`[^|]*`) \|", ARCHITECTURE.read_text().partition("## Glossary")[0])
    assert [re.findall(r"`(\w+)`", row) for row in rows] == layers()


def test_each_readme_tells_what_its_room_may_import() -> None:
    order = layers()
    for at, layer in enumerate(order):
        below = f"the rooms from `{order[at + 1][0]}` down" if at + 1 < len(order) else "nothing"
        for room in layer:
            text = (SOURCE / room / "README.md").read_text()
            assert f"**May import** {below}" in text, room
            assert text.startswith(f"# {room}: "), room
            assert "**Here:** " in text, room
            assert "**Begin with** " in text, room


def test_the_map_stays_short() -> None:
    assert len(ARCHITECTURE.read_text().splitlines()) <= LINES_MAX
    for room in ROOMS:
        lines = (SOURCE / room / "README.md").read_text().splitlines()
        assert len(lines) <= README_LINES_MAX, room
