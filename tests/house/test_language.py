"""The language lint finds a planted breach of each rule, and leaves what is listed as old alone."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "tools/language.py", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def commit(directory: Path, subject: str) -> str:
    """Commit everything; return the commit's id."""
    identity = ["-c", "user.name=A", "-c", "user.email=a@example"]
    subprocess.run(["git", "add", "-A"], cwd=directory, check=True)
    add = ["git", *identity, "commit", "-q", "--allow-empty", "-m", subject]
    subprocess.run(add, cwd=directory, check=True)
    head = ["git", "rev-parse", "HEAD"]
    return subprocess.run(head, cwd=directory, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the lint, an empty list of old findings, and one commit to count from."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "tools").mkdir()
    for name in ("language.py", "syntax.py"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
    words = (ROOT / "tools/language.toml").read_text()
    (tmp_path / "tools/language_old.txt").write_text("")
    first = commit(
        tmp_path, "A subject that is older than the rule and far longer than it allows: kept"
    )
    words = words.replace("5ea511b8", first.strip())
    (tmp_path / "tools/language.toml").write_text(words)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "planted", "finding"),
    [
        ("a.py", '"""Who asks for it."""\n', "docstring: Who asks for it."),
        ("a.py", 'class A:\n    x = 1\n    """What it is."""\n', "a.py:3: docstring: What it is."),
        (
            "a.py",
            "def test_what_is_kept_stays():\n    pass\n",
            "test name: test_what_is_kept_stays",
        ),
        ("a.py", "x = 1  # made anew\n", "filler 'anew'"),
        ("a.py", 'log("the queue %s is not there", x)\n', "filler 'is not there'"),
        ("a.md", "# Nobody asks\n", "heading: Nobody asks"),
        ("a.md", "First.\n\nWhoever reads it.\n", "a.md:3: sentence: Whoever reads it."),
        ("a.md", "- One that waits\n", "sentence: One that waits"),
        ("a.md", "It is read, besides.\n", "filler 'besides'"),
    ],
)
def test_planted_breach_is_found(tree: Path, name: str, planted: str, finding: str) -> None:
    (tree / name).write_text(planted)
    result = lint(tree)
    assert result.returncode == 1
    assert finding in result.stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "if x is None:\n    y = f'{x is None}'\n"),
        ("a.py", "def test_whole_batches_are_read():\n    pass\n"),
        ("a.md", "    Who asks: a block of code\n"),
        ("a.md", "```\nWho asks\n```\n"),
        ("a.md", "It takes no more than 3 s.\n"),
        ("tests/golden/a.md", "Who asks\n"),
    ],
)
def test_text_within_the_rules_passes(tree: Path, name: str, text: str) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)
    result = lint(tree)
    assert (result.returncode, result.stdout) == (0, "language: 0 new, 0 old, 0 mended since\n")


def test_commit_subject_over_72_characters_is_found(tree: Path) -> None:
    commit(tree, "x" * 72)
    assert lint(tree).returncode == 0
    commit(tree, "y" * 73)
    assert "subject of 73 characters" in lint(tree).stdout


def test_long_subject_passes_only_if_its_commit_is_listed(tree: Path) -> None:
    listed = commit(tree, "x" * 73)[:8]
    commit(tree, "y" * 74)
    words = tree / "tools/language.toml"
    words.write_text(words.read_text().replace("8e1a8a4d", listed))
    found = lint(tree).stdout
    assert "subject of 73 characters" not in found
    assert "subject of 74 characters" in found


def test_listed_finding_passes_when_its_file_moves(tree: Path) -> None:
    (tree / "tools/language_old.txt").unlink()
    (tree / "a.md").write_text("# Who asks\n")
    assert lint(tree, "--update").returncode == 0
    (tree / "a.md").rename(tree / "b.md")
    assert "0 new, 1 old" in lint(tree).stdout


def test_update_removes_mended_findings_and_adds_none(tree: Path) -> None:
    (tree / "tools/language_old.txt").write_text("heading: Who asked\n")
    (tree / "a.md").write_text("# Who asks\n")
    lint(tree, "--update")
    assert (tree / "tools/language_old.txt").read_text() == ""
    assert lint(tree).returncode == 1
