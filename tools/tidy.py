"""House rules no linter knows: sizes, circles, rooms, unfinished work, asserts, fetched files.

Run from the repository's root: prints one line per finding and ends with status 1 if there is any.
"""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.syntax import statements

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
KERNEL_LINES_MAX = 70
"""Of a compiled function: what it would call costs it more than its length costs a reader."""
KERNELS = "src/headrace/kernels/"
SOURCE = Path("src/headrace")
FOLDER_FILES_MAX = 20
ROOM_LINES_MAX = 12_000
PUBLIC_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
SCHEMAS = "src/headrace/wire/kafka/hot/"
"""Modules of one API each, whose classes have the names of Kafka's schemas and are used as
`module.Class`."""
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|\bfor now\b")
NO_AWAIT = tuple(
    f"src/headrace/{room}/"
    for room in (
        "broker",
        "coordination",
        "copies",
        "delivery",
        "log",
        "logtools",
        "record",
        "remote_queues",
        "shards",
        "wire",
    )
)
NAMELESS = frozenset({"one", "ones", "thing", "things"})
"""Names that say nothing of what a variable holds."""
_NO_VERBS = """
    a after all an another any as at before below both by each either every everything first for
    from greatest he her here his how if in it its key last least left length lowest many more no
    nobody none not nothing number of offset on once one only our position same she size so
    some somebody something such that the their then there these they this those to too two unless
    until up upper what whatever when where whether which who whoever whom whose why with without
    you your
"""
NO_VERBS = frozenset(_NO_VERBS.split())
"""Words that begin a noun or a clause: plurals, of any noun, need no list."""
IMPERATIVE = re.compile(r"[A-Z][a-z-]*([a-rt-z]|ss)(?=[\s,.:;]|$)")
Needs = dict[str, dict[str, set[str]]]
"""What each module imports of which other one, by their dotted names."""


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
    function_max = KERNEL_LINES_MAX if str(path).startswith(KERNELS) else FUNCTION_LINES_MAX
    shipped = str(path).startswith("src/")
    tree = ast.parse(text)
    for node in ast.walk(tree) if shipped else statements(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or line) - line + 1
            if size > function_max:
                yield f"{path}:{line}: {node.name} has {size} lines, more than {function_max}"
        elif shipped and isinstance(node, ast.Assert):
            yield f"{path}:{line}: assert vanishes under -O; use invariant()"
        elif isinstance(node, ast.Await | ast.AsyncFunctionDef) and str(path).startswith(NO_AWAIT):
            yield f"{path}:{line}: this room decides, it does not wait"
        if shipped and (told := unclear(node)):
            yield f"{path}:{line}: {told}"
    if path != Path("tools/tidy.py"):
        for number, content in enumerate(lines, 1):
            if UNFINISHED.search(content):
                yield f"{path}:{number}: unfinished by its own words: {content.strip()[:60]}"


def unclear(node: ast.AST) -> str | None:
    """What a reader of shipped code cannot tell: what a name holds, or what a function does."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) if name in NAMELESS:
            return f"a variable called {name}: name it for what it holds"
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            text = ast.get_docstring(node)
            word = IMPERATIVE.match(text) if text else None
            verb = word is not None and word[0].lower() not in NO_VERBS
            # What constructs and what is read as a field do nothing that a verb would say.
            if text and not verb and name != "__init__" and not _is_field(node):
                return f"{name}: begin with what it does, not {text.split()[0]!r}"
    return None


def _is_field(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def modules(source: Path) -> dict[str, Path]:
    """The modules below `source`, by their dotted names."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def needs(files: Mapping[str, Path]) -> Needs:
    """Which module imports what of which other: inside functions too, and for types only too.

    But not for types only from the same folder: two files that describe one thing may name each
    other's types.
    """
    found: Needs = {}
    for module, path in files.items():
        mine = found[module] = {}
        tree = ast.parse(path.read_text())
        folder = module.rpartition(".")[0]
        for node in statements(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = [
                    each
                    for each in node.body
                    if not isinstance(each, ast.ImportFrom)
                    or (each.module or "").rpartition(".")[0] != folder
                ]
        for wanted, name in _imports(tree, module, path):
            whole = f"{wanted}.{name}"
            target = whole if whole in files else wanted
            if target in files and target != module:
                mine.setdefault(target, set()).add("the module" if target == whole else name)
    return found


def _imports(tree: ast.AST, module: str, path: Path) -> Iterator[tuple[str, str]]:
    """Each name imported, with the module it is imported from."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from ((*alias.name.rpartition(".")[::2],) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")
            if path.name != "__init__.py":
                package.pop()
            above = package[: len(package) - node.level + 1] if node.level else []
            wanted = ".".join([*above, *filter(None, [node.module])])
            yield from ((wanted, alias.name) for alias in node.names)


def circles(found: Needs) -> list[list[str]]:
    """The sets of modules of which each one needs, over others of them, each other one."""
    reached = {module: _reach(found, module) for module in found}
    left, together = set(found), []
    for module in found:
        if module in left:
            circle = {other for other in reached[module] & left if module in reached[other]}
            left -= circle | {module}
            if circle:
                together.append(sorted(circle | {module}))
    return together


def _reach(found: Needs, start: str) -> set[str]:
    seen: set[str] = set()
    front = [start]
    while front:
        for target in found[front.pop()]:
            if target not in seen:
                seen.add(target)
                front.append(target)
    return seen


def told(found: Needs, circle: list[str]) -> str:
    """The circle in words: who needs whom, and by which names."""
    ties = [
        f"{module} -> {target} ({', '.join(sorted(names))})"
        for module in circle
        for target, names in sorted(found[module].items())
        if target in circle
    ]
    return "a circle of files: " + "; ".join(ties)


def tied() -> Iterator[str]:
    """Circles of files in what is shipped.

    None of the files of a circle can be understood, tried or moved without the others.
    """
    files = modules(Path("src"))
    found = needs(files)
    for circle in circles(found):
        yield f"{files[circle[0]]}:1: {told(found, circle)}"


def room_of(path: Path) -> str:
    """Return the room of a shipped file: a folder of SOURCE, or a protocol below `frontends`."""
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
            for name in PUBLIC_CLASS.findall(text):
                classes[room, name].append(path)
    for room, count in sorted(lines.items()):
        if count > ROOM_LINES_MAX:
            yield f"{SOURCE / room}:1: {count} lines, more than {ROOM_LINES_MAX}"
    for (_, name), found in sorted(classes.items()):
        if len(found) > 1:
            yield f"{found[1]}:1: class {name} stands in {found[0]} too, in the same room"


def main() -> int:
    found = [*fetched(), *tied(), *rooms(tracked())]
    found += (finding for path in tracked() for finding in findings(path))
    print("\n".join(found) or "tidy: sizes and house rules hold")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
