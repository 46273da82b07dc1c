"""House rules about rooms: files in a folder, lines in a room, public class names.

A room is a folder of `src/headrace`; each protocol below `frontends` is a room of its own.
"""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCE = Path("src/headrace")
FOLDER_FILES_MAX = 20
ROOM_LINES_MAX = 12_000
SCHEMAS = "src/headrace/wire/kafka/hot/"
"""Modules of one API each, whose classes have the names of Kafka's schemas and are used as
`module.Class`."""


def room_of(path: Path) -> str:
    """Return the room that a shipped file belongs to."""
    parts = path.relative_to(SOURCE).parts
    if len(parts) == 1:
        return "headrace"
    return "/".join(parts[:2]) if parts[0] == "frontends" and len(parts) > 2 else parts[0]


def rooms(paths: Iterable[Path]) -> Iterator[str]:
    """Yield a finding for each folder, room or class name that breaks a rule."""
    shipped = [path for path in paths if path.is_relative_to(SOURCE)]
    folders = Counter(path.parent for path in shipped)
    for folder, count in sorted(folders.items()):
        if count > FOLDER_FILES_MAX:
            yield f"{folder}:1: {count} files, more than {FOLDER_FILES_MAX}"
    lines: Counter[str] = Counter()
    classes: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in shipped:
        text, room = path.read_text(), room_of(path)
        lines[room] += text.count("\n")
        if not str(path).startswith(SCHEMAS):
            for name in _public_classes(text):
                classes[room, name].append(path)
    for room, count in sorted(lines.items()):
        if count > ROOM_LINES_MAX:
            yield f"{SOURCE / room}:1: {count} lines, more than {ROOM_LINES_MAX}"
    for (_, name), found in sorted(classes.items()):
        if len(found) > 1:
            yield f"{found[1]}:1: class {name} stands in {found[0]} too, in the same room"


def _public_classes(text: str) -> Iterator[str]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
