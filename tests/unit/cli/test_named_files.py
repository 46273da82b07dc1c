"""A file that a command's arguments name and that cannot be used is a usage error, in one line."""

from pathlib import Path

import pytest

from headrace.cli.main import run as command


@pytest.mark.parametrize("words", [["produce", "t"], ["pipeline", "init", "shop", "--from-file"]])
@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing", "no such file or directory"), ("directory", "is a directory")],
)
def test_a_named_file_that_cannot_be_read_is_a_usage_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    name: str,
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "directory").mkdir()
    assert command([*words, name]) == 2
    assert capsys.readouterr().err == f"headrace: {name}: {reason}\n"
    assert not (tmp_path / "shop").exists()


def test_a_project_that_cannot_be_written_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert command(["pipeline", "init", str(tmp_path / "file" / "shop")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(": not a directory")
