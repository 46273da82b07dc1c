"""The parts of `make mutants`: what is drawn, where it is planted, how a run is judged."""

import ast
import json
from pathlib import Path
from textwrap import dedent

import pytest

from tests.mutants.draw import draw, faults_of
from tests.mutants.faults import NoSuchPlace, changed, equivalent, listed, with_drawn
from tests.mutants.seen import Seen, asked_files, unmeasured
from tests.mutants.table import Counts

ROOT = Path(__file__).parents[2]
FILE = "src/headrace/room/file.py"


def drawn(source: str, kind: str) -> list[str]:
    """The new lines of every fault of `kind` in `source`."""
    found = [fault for fault in faults_of(FILE, dedent(source)) if fault.kind == kind]
    for fault in found:
        ast.parse(with_drawn(dedent(source), fault))
    return [fault.new.strip() for fault in found]


@pytest.mark.parametrize(
    ("source", "kind", "new"),
    [
        ("a < b", "comparison", ["a <= b"]),
        ("a <= b", "comparison", ["a < b"]),
        ("a == b", "comparison", ["a != b"]),
        ("a is not b", "comparison", ["a is b"]),
        ("a not in b", "comparison", ["a in b"]),
        ("a < b > c", "comparison", ["a < b >= c", "a <= b > c"]),
        ("a and b", "and/or", ["a or b"]),
        ("a or b or c", "and/or", ["a and b or c", "a or b and c"]),
        ("a = 7", "constant", ["a = 6", "a = 8"]),
        ("a = 0", "constant", ["a = (-1)", "a = 1"]),
        ("a = True", "constant", []),
        ("a = b + c", "operand", ["a = b + (c + 1)", "a = b + (c - 1)"]),
        ("a = 'text' + c", "operand", []),
        ("a.close(b)", "dropped call", ["pass"]),
        ("async def f():\n    await a.close()", "dropped call", ["pass"]),
        ("f(a, b)", "swapped arguments", ["f(b, a)"]),
        ("f(a, b, c)", "swapped arguments", ["f(a, c, b)", "f(b, a, c)"]),
        ("f(a, a)", "swapped arguments", []),
        ("f(*a, b)", "swapped arguments", []),
        ("min(a, b)", "swapped arguments", []),
        ("a = not b", "not", ["a = b"]),
        ("a = not (b or c) or d", "not", ["a = (b or c) or d"]),
        ("def f():\n    return True", "return", ["return False"]),
        ("def f():\n    return None", "return", []),
    ],
)
def test_each_kind_of_fault_is_drawn_as_it_says(source: str, kind: str, new: list[str]) -> None:
    assert sorted(drawn(source, kind)) == new


@pytest.mark.parametrize(
    "source",
    [
        '"""a < 1"""',
        "a: int[1 < 2]",
        "def f(a: g(1, 2)) -> g(3, 4): ...",
        "@g(1, 2)\ndef f(): ...",
        "def __repr__(self):\n    return 1 < 2",
        "@njit(cache=True)\ndef f():\n    return 1 < 2",
        "_logger.info('said', 1, 2)",
        "invariant(1 < 2, 'holds')",
        "f'{a < 1}'",
        "if TYPE_CHECKING:\n    f(1, 2)",
    ],
)
def test_words_types_and_what_always_holds_are_left_alone(source: str) -> None:
    assert faults_of(FILE, source) == []


SOURCE = """\
class Ä:
    def f(self, ü):
        if (
            ü < b
            and self.open
        ):
            self.close()
"""


def test_a_fault_names_its_function_its_line_and_the_lines_of_its_statement() -> None:
    by_kind = {fault.kind: fault for fault in faults_of(FILE, SOURCE)}
    assert (by_kind["comparison"].function, by_kind["comparison"].line) == ("Ä.f", 4)
    assert by_kind["comparison"].run == (3, 6)
    assert by_kind["dropped call"].run == (7, 7)
    assert by_kind["and/or"].diff() == "-            and self.open\n+            or self.open"


def test_a_fault_changes_its_lines_and_no_others() -> None:
    (fault,) = [fault for fault in faults_of(FILE, SOURCE) if fault.kind == "comparison"]
    assert with_drawn(SOURCE, fault) == SOURCE.replace("ü < b", "ü <= b")


def a_tree(root: Path) -> Path:
    path = root / FILE
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"def f{number}(a):\n    return a < b\n" for number in range(50)))
    kernel = root / "src/headrace/kernels/decode_numba.py"
    kernel.parent.mkdir()
    kernel.write_text("a < 1")
    return root


def test_a_seed_draws_the_same_faults_again_and_another_draws_others(tmp_path: Path) -> None:
    root = a_tree(tmp_path)
    assert draw(root, 10, seed=1) == draw(root, 10, seed=1) != draw(root, 10, seed=2)


def test_a_draw_takes_no_line_twice_and_nothing_from_compiled_kernels(tmp_path: Path) -> None:
    drawn = draw(a_tree(tmp_path), 1000, seed=1)
    assert len({fault.line for fault in drawn}) == len(drawn) == 50
    assert {fault.file for fault in drawn} == {FILE}


@pytest.mark.parametrize(("text", "count"), [("a = 2", 0), ("a = 1; a = 1", 2)])
def test_an_old_text_that_is_gone_or_stands_twice_is_an_error_with_its_entry(
    text: str, count: int
) -> None:
    with pytest.raises(NoSuchPlace, match=f"the entry: its old text is there {count} times"):
        changed(text, "a = 1", "a = 0", "the entry")


def test_an_old_text_that_stands_once_is_replaced() -> None:
    assert changed("a = 1\nb = 1", "a = 1", "a = 0", "the entry") == "a = 0\nb = 1"


ENTRY = f"""\
[[fault]]
file = "{FILE}"
old = '''
    return a
      < 1'''
new = '''
    return a
      <= 1'''
test = "t.py::t"
"""


def test_a_list_keeps_its_texts_as_they_are_and_is_named_for_its_room(tmp_path: Path) -> None:
    (tmp_path / "log.toml").write_text(ENTRY)
    (tmp_path / "equivalent.toml").write_text("")
    (entry,) = listed(tmp_path)
    assert (entry.room, entry.old, entry.test) == ("log", "    return a\n      < 1", "t.py::t")


def test_a_fault_known_to_be_none_is_known_at_any_line_and_indent(tmp_path: Path) -> None:
    source = "\n\ndef f(a):\n  return a < b\n"
    path = tmp_path / FILE
    path.parent.mkdir(parents=True)
    path.write_text(source)
    entry = f"[[fault]]\nfile = '{FILE}'\nfunction = 'f'\n"
    entry += "old = 'return a < b'\nnew = 'return a <= b'\nreason = 'a is never b'\n"
    (tmp_path / "equivalent.toml").write_text(entry)
    assert equivalent(tmp_path, tmp_path) == {fault.key for fault in faults_of(FILE, source)}
    path.write_text(source.replace("a < b", "a < c"))
    with pytest.raises(NoSuchPlace, match="f: no longer there"):
        equivalent(tmp_path, tmp_path)


def test_every_listed_fault_has_its_place_in_the_source() -> None:
    for entry in listed():
        changed((ROOT / entry.file).read_text(), entry.old, entry.new, entry)
    equivalent(ROOT)


def seen(**seconds: float) -> Seen:
    names = {f"{name}.py::test_{name}": took for name, took in seconds.items()}
    breadth = {name: 10 * place for place, name in enumerate(names, 1)}
    return Seen(names, {FILE: {5: [frozenset(names)]}}, breadth)


def test_every_listed_fault_names_a_test_that_is_there() -> None:
    names: dict[str, set[str]] = {}
    missing = []
    for entry in listed():
        file, *inside = entry.test.partition("[")[0].split("::")
        if file not in names:
            tree = ast.parse((ROOT / file).read_text())
            found = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign)
            names[file] = {
                name
                for node in ast.walk(tree)
                if isinstance(node, found)
                for name in (
                    [target.id for target in node.targets if isinstance(target, ast.Name)]
                    if isinstance(node, ast.Assign)
                    else [node.name]
                )
            }
        if not names[file].issuperset(part for part in inside if part != "runTest"):
            missing.append(f"{entry}: {entry.test}")
    assert missing == []


def test_tests_are_asked_the_narrowest_and_the_fastest_in_turn() -> None:
    measured = seen(narrow=3.0, middle=2.0, wide=0.1)
    order = [test.partition(".")[0] for test in measured.choose(FILE, 4, 6, 10.0)]
    assert order == ["narrow", "wide", "middle"]


def test_no_more_tests_are_asked_than_their_time_allows_but_always_one() -> None:
    measured = seen(narrow=30.0, wide=1.0)
    assert measured.choose(FILE, 5, 5, 10.0) == ["narrow.py::test_narrow"]
    assert measured.choose(FILE, 6, 6, 10.0) == []


def test_the_table_counts_what_survived_and_leaves_out_what_is_no_fault() -> None:
    counts = Counts(listed=9, unnoticed=0, drawn=42, found=36, hangs=1, refused=1, equivalent=2)
    assert str(counts).splitlines() == [
        "listed     9   unnoticed 0",
        "drawn     42   found 36   hangs 1   refused 1   equivalent 2   survivors 2   95.0 %",
    ]
    assert counts.good


@pytest.mark.parametrize(
    "counts", [Counts(listed=9, unnoticed=1), Counts(drawn=100, found=93, hangs=1)]
)
def test_an_unnoticed_listed_fault_or_too_many_survivors_are_not_good(counts: Counts) -> None:
    assert not counts.good


def test_all_that_run_or_import_a_line_are_asked_in_the_end_first_those_of_its_room() -> None:
    tests = ["tests/unit/log/a.py::test_a", "tests/unit/log/a.py::test_b", "b.py::test_c"]
    importing = [frozenset([*tests, "b.py::test_slow"])]
    seconds = dict.fromkeys(tests, 1.0) | {"b.py::test_slow": 9.0}
    measured = Seen(seconds, {}, {}, {"src/headrace/log/x.py": {1: importing}})
    running = Seen(
        seconds, {"src/headrace/log/x.py": {1: [frozenset(tests[2:])]}}, {}, measured.loose
    )
    assert measured.wider("src/headrace/log/x.py", 1, 1, 5.0) == tests
    assert running.wider("src/headrace/log/x.py", 1, 1, 2.0) == [tests[2], tests[0]]


def test_a_line_run_outside_any_test_is_asked_of_those_that_run_the_rest_of_its_file() -> None:
    tests = frozenset(["a.py::test_user", "a.py::test_other"])
    user = [frozenset(["a.py::test_user"])]
    seconds = dict.fromkeys(tests, 1.0)
    measured = Seen(seconds, {FILE: {9: user}}, dict.fromkeys(tests, 1), {FILE: {1: [tests]}})
    assert measured.choose(FILE, 1, 1, 10.0) == ["a.py::test_user"]
    nobody = Seen(seconds, {}, dict.fromkeys(tests, 0), {FILE: {1: [tests]}})
    assert set(nobody.choose(FILE, 1, 1, 10.0)) == tests


def test_who_uses_a_constant_is_asked_behind_whoever_was_the_first_to_import_it() -> None:
    names = ("a.py::test_first", "b.py::test_rare", "b.py::test_user")
    first, rare, user = (frozenset([name]) for name in names)
    lines = {1: [first], 2: [first], 8: [user], 9: [user, rare]}
    seconds = dict.fromkeys(names, 1.0)
    measured = Seen(seconds, {FILE: lines}, dict.fromkeys(names, 1), {FILE: {1: [user], 2: [user]}})
    assert measured.choose(FILE, 1, 1, 10.0) == [names[0], names[2], names[1]]
    assert measured.choose(FILE, 1, 1, 2.0) == [names[0], names[2]]
    assert measured.choose(FILE, 8, 8, 10.0) == [names[2]]


def test_a_tests_lines_are_measured_anew_only_when_what_it_imports_has_changed(
    tmp_path: Path,
) -> None:
    tests = {"tests/unit/room/test_a.py": ["src/a.py", "src/b.py"], "tests/test_b.py": ["src/b.py"]}
    hashes = {name: name for name in [*tests, "src/a.py", "src/b.py", "src/c.py"]}
    assert unmeasured(tmp_path, list(tests), hashes) == list(tests)
    for test, imported in tests.items():
        made_of = {name: name for name in [test, *imported]}
        part = tmp_path / (test.replace("/", "-") + ".json")
        part.write_text(json.dumps({"made_of": made_of}))
    assert unmeasured(tmp_path, list(tests), hashes | {"src/c.py": "changed"}) == []
    for changed_file, outdated in {
        "src/a.py": ["tests/unit/room/test_a.py"],
        "src/b.py": list(tests),
        "tests/test_b.py": ["tests/test_b.py"],
    }.items():
        assert unmeasured(tmp_path, list(tests), hashes | {changed_file: "changed"}) == outdated
        gone = {name: known for name, known in hashes.items() if name != changed_file}
        assert unmeasured(tmp_path, list(tests), gone) == outdated


def test_tests_are_asked_in_whatever_room_they_lie() -> None:
    files = asked_files(ROOT)
    for tests in ("tests/unit", "tests/broker"):
        rooms = {path.parent for path in (ROOT / tests).rglob("test_*.py")}
        assert rooms == {ROOT / Path(file).parent for file in files if file.startswith(tests)}
    assert "tests/house/test_mutants.py" not in files


def test_what_numba_compiles_is_not_drawn_from_and_its_twins_are() -> None:
    kernels = {path.name for path in (ROOT / "src/headrace/kernels").glob("*.py")}
    drawn_from = {fault.file for fault in draw(ROOT, 100_000, seed=1)}
    compiled = {
        name for name in kernels if "jit" in (ROOT / "src/headrace/kernels" / name).read_text()
    }
    assert not drawn_from & {f"src/headrace/kernels/{name}" for name in compiled}
    for twin in ("decode_python.py", "choose.py"):
        assert f"src/headrace/kernels/{twin}" in drawn_from
