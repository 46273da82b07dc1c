"""A new project: what is refused before anything is read or written."""

from pathlib import Path

import pytest

from headrace.pipeline.commands.init import init
from headrace.terminal.failure import EXIT_USAGE, CommandError


def test_a_used_directory_is_refused_before_the_lines_are_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "notes").touch()
    with pytest.raises(CommandError, match="is not empty") as refused:
        init(tmp_path / "shop", from_file=tmp_path / "missing.log")
    assert refused.value.code == EXIT_USAGE
    assert capsys.readouterr() == ("", "")


def test_a_name_that_no_pipeline_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no name for a pipeline"):
        init(tmp_path / "1shop")
    assert not (tmp_path / "1shop").exists()
