"""Delta tables are written with versions of deltalake that commit as expected."""

import sys
from pathlib import Path

import deltalake
import pytest

from headrace.spark.errors import SourceError
from headrace.spark.tables.delta_version import check_version
from tests.support.spark.tables import Run

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("version", ["1.6.6", "1.6.7", "1.10.0", "1.6.6.post1", "1.99"])
def test_supported_versions_of_deltalake_are_accepted(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize(
    "version", ["0.25.5", "1.3.2", "1.6.5", "1.6", "2.0.0", "2.0.0rc1", "10.1"]
)
def test_other_versions_of_deltalake_are_refused_by_name(version: str) -> None:
    with pytest.raises(SourceError, match=rf"deltalake {version} is .* need deltalake>=1\.6\.6,<2"):
        check_version(version)


def test_a_query_with_another_deltalake_ends_before_it_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "headrace.spark.tables.delta", raising=False)
    monkeypatch.setattr(deltalake, "__version__", "1.3.2")
    with pytest.raises(SourceError, match=r"deltalake 1\.3\.2 is installed"):
        Run(tmp_path, "delta").table  # noqa: B018 - the format's module is imported


def test_the_package_requires_the_versions_that_are_checked() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert '"deltalake>=1.6.6,<2"' in text
