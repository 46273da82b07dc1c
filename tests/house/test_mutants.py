"""The parts of `make mutants`: what is drawn, where it is planted, how a run is judged."""

import ast
import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.draw import changed_since, draw, drawn_from, faults_of
from tests.mutants.faults import with_drawn
from tests.mutants.lists import WHYS, Listed, NoSuchFault, equivalent, found, listed
from tests.mutants.runs import Outcome
from tests.mutants.seen import Seen, alone, asked_files, importers_of, unmeasured
from tests.mutants.table import Counts
from tests.mutants.warm import SOURCE as IMPORTED_FROM
from tests.mutants.warm import swap

ROOT = Path(__file__).parents[2]
FILE = "src/headrace/room/file.py"


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


def test_half_of_a_draw_is_from_changed_files_where_there_are_any(tmp_path: Path) -> None:
    root = a_tree(tmp_path)
    young = "src/headrace/room/young.py"
    (root / young).write_text("a = b < c\n" * 9)
    files = [fault.file for fault in draw(root, 10, 1, frozenset([young]))]
    assert len(files) == 10
    assert files.count(young) >= 5


def test_a_renamed_file_that_is_as_it_was_has_not_changed(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    source = tmp_path / "src/headrace"
    source.mkdir(parents=True)
    git("init")
    for name in ("moved", "edited", "kept"):
        (source / f"{name}.py").write_text(f"# {name}\n" * 9)
    git("add", ".")
    git("commit", "-m", "a")
    git("mv", "src/headrace/moved.py", "src/headrace/elsewhere.py")
    (source / "edited.py").write_text("b")
    assert changed_since(tmp_path, "HEAD") == {"src/headrace/edited.py"}


TWICE = """\
def f(a):
    a.close()
    c = a < b
    a.close()
def h(a):
    a.close()
"""


def a_file(root: Path, text: str) -> Path:
    path = root / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return root


def entry(symbol: str, fault: str) -> Listed:
    return Listed("room", symbol, fault, "t.py::t")


def test_faults_of_one_name_in_a_function_are_numbered() -> None:
    names = [f"{fault.function} {fault.label}" for fault in faults_of(FILE, TWICE)]
    assert names == ["f a.close #1", "f a < b", "f a.close #2", "h a.close"]


def test_an_entry_holds_whatever_becomes_of_other_functions(tmp_path: Path) -> None:
    named = entry("room/file.py:f", "dropped call: a.close #2")
    assert found(a_file(tmp_path, TWICE), named).line == 4
    other = TWICE.replace("def h(a):\n    a.close()", "def h(b):\n    b.open()")
    assert found(a_file(tmp_path, "c = 1\n" + other), named).line == 5


@pytest.mark.parametrize(
    ("symbol", "fault", "problem"),
    [
        ("room/gone.py:f", "dropped call: a.close", "there is no src/headrace/room/gone.py"),
        ("room/file.py:gone", "dropped call: a.close", "there is: none"),
        ("room/file.py:f", "dropped call: a.close", "there is:\n  a.close #1\n  a.close #2"),
        ("room/file.py:f", "lost call: a.close", "no operator is called 'lost call'"),
    ],
)
def test_an_entry_of_what_is_not_there_is_an_error_that_names_what_is(
    symbol: str, fault: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(NoSuchFault) as error:
        found(a_file(tmp_path, TWICE), entry(symbol, fault))
    assert problem in str(error.value)


def test_a_fault_known_to_be_none_is_known_at_any_line(tmp_path: Path) -> None:
    text = "[[fault]]\nsymbol = 'room/file.py:f'\nfault = 'comparison: a < b'\nreason = ''\n"
    (tmp_path / "equivalent.toml").write_text(text)
    for source in (TWICE, "\n\n" + TWICE):
        keys = {fault.key for fault in faults_of(FILE, source)}
        assert equivalent(a_file(tmp_path, source), tmp_path) < keys
    with pytest.raises(NoSuchFault, match="comparison 'a < b'"):
        equivalent(a_file(tmp_path, TWICE.replace("a < b", "a < c")), tmp_path)


def test_every_listed_fault_can_be_planted() -> None:
    for one in listed():
        ast.parse(with_drawn((ROOT / one.file).read_text(), found(ROOT, one)))
    equivalent(ROOT)


def test_each_room_has_its_list_and_each_kind_of_mistake_its_entries() -> None:
    entries = listed()
    assert {one.room for one in entries} == {one.symbol.partition("/")[0] for one in entries}
    assert all(one.symbol.startswith(f"{one.room}/") for one in entries)
    counts = Counter(one.why for one in entries)
    assert {why for why in WHYS if counts[why] >= 10} == set(WHYS)
    assert counts.keys() == {"", *WHYS}


LIVE = """\
LIMIT = 1
def f(a):
    def g():
        return a < LIMIT
    return g()
class C:
    def m(self):
        return super().__hash__() and 7
"""


@pytest.mark.parametrize(
    ("old", "new", "swapped"),
    [
        ("a < LIMIT", "a <= LIMIT", True),
        ("and 7", "and 8", True),
        ("LIMIT = 1", "LIMIT = 2", False),
        ("return g()", "return g() + b", True),
    ],
)
def test_a_fault_in_a_function_is_planted_in_what_was_imported(
    old: str, new: str, swapped: bool
) -> None:
    path = str(IMPORTED_FROM.parent / FILE)
    names: dict[str, Any] = {"__name__": "live", "b": 1}
    exec(compile(LIVE, path, "exec"), names)
    functions = {(path, "f"): [names["f"]], (path, "C.m"): [names["C"].m]}
    before = names["f"](1), names["C"]().m()
    assert swap(functions, FILE, LIVE, LIVE.replace(old, new)) == swapped
    assert ((names["f"](1), names["C"]().m()) != before) == swapped


def test_the_first_test_does_not_pay_alone_for_what_its_file_shares() -> None:
    outcomes = {
        "first": Outcome(seconds=9.5, setup_seconds=9.0),
        "second": Outcome(seconds=0.5),
        "failed": Outcome(failed=True, seconds=1.0),
    }
    assert alone(outcomes) == {"first": 9.5, "second": 9.5}
    assert alone({"quick": Outcome(seconds=0.5, setup_seconds=0.4)}) == {"quick": 0.5}


def test_tests_of_a_file_that_only_defines_are_those_of_what_imports_it(tmp_path: Path) -> None:
    a_file(tmp_path, "from headrace.room.names import A\n")
    importers = importers_of(tmp_path)
    names = "src/headrace/room/names.py"
    assert importers == {names: {FILE}}
    test = frozenset(["t.py::test"])
    measured = Seen({"t.py::test": 1.0}, {FILE: {3: [test]}}, {"t.py::test": 1}, {}, importers)
    assert measured.choose(names, 1, 1, 10.0, at_import=True) == ["t.py::test"]
    assert measured.choose(names, 1, 1, 10.0) == []


def seen(**seconds: float) -> Seen:
    names = {f"{name}.py::test_{name}": took for name, took in seconds.items()}
    breadth = {name: 10 * place for place, name in enumerate(names, 1)}
    return Seen(names, {FILE: {5: [frozenset(names)]}}, breadth)


def test_every_listed_fault_names_a_test_that_is_there() -> None:
    names: dict[str, set[str]] = {}
    missing = []
    for one in listed():
        file, *inside = one.test.partition("[")[0].split("::")
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
            missing.append(f"{one}: {one.test}")
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
    files = drawn_from(ROOT)
    compiled = {
        name for name in kernels if "jit" in (ROOT / "src/headrace/kernels" / name).read_text()
    }
    assert not {f"src/headrace/kernels/{name}" for name in compiled}.intersection(files)
    for twin in ("decode_python.py", "choose.py"):
        assert f"src/headrace/kernels/{twin}" in files
