"""The rules of the house are enforced: a planted violation of each is found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def tidy(directory: Path) -> "subprocess.CompletedProcess[str]":
    tool = ROOT / "tools" / "tidy.py"
    return subprocess.run(
        [sys.executable, str(tool)], cwd=directory, capture_output=True, text=True, check=False
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "src/headrace/broker").mkdir(parents=True)
    return tmp_path


def test_a_clean_tree_is_tidy(tree: Path) -> None:
    (tree / "src/headrace/broker/fine.py").write_text('"""Fine."""\n')
    assert tidy(tree).returncode == 0


@pytest.mark.parametrize(
    ("planted", "finding"),
    [
        ("x = 1\n" * 401, "401 lines"),
        ("def long():\n" + "    x = 1\n" * 60, "long has 61 lines"),
        ("def f(x):\n    assert x\n", "assert vanishes"),
        ("# TO" + "DO later\n", "unfinished"),
        ("async def f():\n    await g()\n", "does not wait"),
        ("def f(one):\n    pass\n", "a variable called one"),
        ("for thing in x:\n    pass\n", "a variable called thing"),
        ("x = [a for ones, a in b]\n", "a variable called ones"),
        ("x = lambda one: 1\n", "a variable called one"),
        ('def f():\n    """The end of it."""\n', "f: begin with what it does, not 'The'"),
        ('def f():\n    """Whether it is."""\n', "not 'Whether'"),
        ('def f():\n    """Names, sorted."""\n', "not 'Names,'"),
        ('def f():\n    """ApiError where not."""\n', "not 'ApiError'"),
        ('def f():\n    """`x` is told."""\n', "not '`x`'"),
        ('def f():\n    """16 bytes."""\n', "not '16'"),
        ('class A:\n    def f(self):\n        """It ends."""\n', "not 'It'"),
    ],
)
def test_a_planted_untidiness_is_found(tree: Path, planted: str, finding: str) -> None:
    (tree / "src/headrace/broker/planted.py").write_text(planted)
    result = tidy(tree)
    assert result.returncode == 1
    assert finding in result.stdout


@pytest.mark.parametrize(
    "fine",
    [
        'def f():\n    """Return it."""\n',
        'def f():\n    """Pass it on."""\n',
        'def f():\n    """Cut."""\n',
        "def f():\n    pass\n",
        'class A:\n    def __init__(self):\n        """`x` is told."""\n',
        'class A:\n    @property\n    def f(self):\n        """The end."""\n',
        'class A:\n    @cached_property\n    def f(self):\n        """The end."""\n',
        'class A:\n    """What it holds."""\n',
        "x = f(one)\n",
    ],
)
def test_a_docstring_that_begins_with_a_verb_is_tidy_and_what_is_no_act_needs_none(
    tree: Path, fine: str
) -> None:
    (tree / "src/headrace/broker/fine.py").write_text(fine)
    assert tidy(tree).stdout == "tidy: sizes and house rules hold\n"


@pytest.mark.parametrize(
    "back",
    [
        "from headrace.broker.first import First",
        "if TYPE_CHECKING:\n    from headrace.broker import first",  # of a folder, not a file
        "def later():\n    import headrace.broker.first",
        "from .first import First",
    ],
    ids=["import", "for types only", "in a function", "relative"],
)
def test_a_planted_circle_of_files_is_found_with_the_names_that_tie_it(
    tree: Path, back: str
) -> None:
    broker = tree / "src/headrace/broker"
    (broker / "first.py").write_text("from headrace.broker.second import Second\n")
    (broker / "second.py").write_text("from headrace.broker.third import Third\n")
    (broker / "third.py").write_text(back + "\n")
    result = tidy(tree)
    assert result.returncode == 1
    assert "a circle of files" in result.stdout
    assert "headrace.broker.first -> headrace.broker.second (Second)" in result.stdout
    assert "headrace.broker.third -> headrace.broker.first" in result.stdout


def test_type_only_import_in_one_folder_makes_no_circle(tree: Path) -> None:
    broker = tree / "src/headrace/broker"
    (broker / "first.py").write_text("from headrace.broker.second import Second\n")
    back = "if TYPE_CHECKING:\n    from headrace.broker.first import First\n"
    (broker / "second.py").write_text(back)
    assert tidy(tree).stdout == "tidy: sizes and house rules hold\n"


def test_a_compiled_function_may_be_longer_than_others_but_not_by_much(tree: Path) -> None:
    kernels = tree / "src/headrace/kernels"
    kernels.mkdir()
    (kernels / "fine.py").write_text("def long():\n" + "    x = 1\n" * 69)
    assert tidy(tree).returncode == 0
    (kernels / "planted.py").write_text("def longer():\n" + "    x = 1\n" * 70)
    assert "longer has 71 lines, more than 70" in tidy(tree).stdout


def test_a_large_file_that_is_known_may_not_grow(tree: Path) -> None:
    known = tree / "src/headrace/log/segment/segment.py"
    known.parent.mkdir(parents=True)
    known.write_text("x = 1\n" * 416)
    assert "416 lines" in tidy(tree).stdout


AGAINST_THE_RULES = [
    ("log", "headrace.broker.partition"),
    ("broker", "headrace.coordination.coordinators"),
    ("net", "pyarrow"),
    ("server", "headrace.logtools.verify"),
    ("testing", "headrace.logtools.verify"),
    *[(room, "kazoo") for room in ("server", "cluster", "broker")],
    *[
        (room, module)
        for room in (
            "broker",
            "coordination",
            "shards",
            "delivery",
            "replication",
            "log",
            "logtools",
            "model",
        )
        for module in ("asyncio", "time", "os", "select", "signal", "subprocess", "multiprocessing")
    ],
    *[
        (room, module)
        for room in ("cluster", "frontends")
        for module in ("time", "os", "socket", "random", "threading", "concurrent")
    ],
]
"""A room, and what nobody in it may import."""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> "subprocess.CompletedProcess[str]":
    """What is said of a copy in which each of them is imported by a file of its own."""
    place = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "src", place / "src")
    shutil.copy(ROOT / "pyproject.toml", place)
    for room, module in AGAINST_THE_RULES:
        path = place / "src/headrace" / room / f"planted_{module.replace('.', '_')}.py"
        path.write_text(f"import {module}\n")
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(place / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("room", "module"), AGAINST_THE_RULES)
def test_a_planted_import_against_the_rules_is_found(
    judged: "subprocess.CompletedProcess[str]", room: str, module: str
) -> None:
    assert judged.returncode == 1, judged.stdout + judged.stderr
    planted = f"headrace.{room}.planted_{module.replace('.', '_')} -> {module}"
    assert planted in " ".join(judged.stdout.split())  # long lines are wrapped


def test_a_folder_of_more_than_twenty_files_is_found(tree: Path) -> None:
    for number in range(21):
        (tree / f"src/headrace/broker/part_{number}.py").write_text('"""Fine."""\n')
    result = tidy(tree)
    assert result.returncode == 1
    assert "src/headrace/broker:1: 21 files, more than 20" in result.stdout


def test_a_public_class_name_used_twice_in_a_room_is_found(tree: Path) -> None:
    for room, name in (("broker", "one"), ("broker/replica", "two"), ("log", "three")):
        (tree / "src/headrace" / room).mkdir(parents=True, exist_ok=True)
        text = '"""Fine."""\n\n\nclass Store:\n    """A store."""\n'
        (tree / f"src/headrace/{room}/{name}.py").write_text(text)
    result = tidy(tree)
    assert result.returncode == 1
    assert "class Store stands in src/headrace/broker/one.py too" in result.stdout
    assert "three.py" not in result.stdout


def test_a_room_of_more_than_12_000_lines_is_found(tree: Path) -> None:
    for protocol in ("kafka", "amqp"):
        (tree / "src/headrace/frontends" / protocol / "apis").mkdir(parents=True)
    for number in range(31):
        protocol = "kafka" if number else "amqp"
        folder = "apis/" if number > 15 else ""
        path = tree / f"src/headrace/frontends/{protocol}/{folder}part_{number}.py"
        path.write_text("x = 1\n" * 400 if number < 30 else "x = 1\n" * 401)
    result = tidy(tree)
    assert "src/headrace/frontends/kafka:1: 12001 lines, more than 12000" in result.stdout
    assert "frontends/amqp:1" not in result.stdout
