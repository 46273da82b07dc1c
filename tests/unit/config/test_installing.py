"""The command that installs a missing package: pip of this Python, with the versions we need."""

import shlex
import sys
from importlib import metadata

import pytest

from headrace.config.installing import install_command


def test_versions_are_those_of_our_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["uvloop>=0.21", 'duckdb>=1.1; extra == "query"', "kazoo<2.12,>=2.11"]
    monkeypatch.setattr(metadata, "requires", lambda name: required)
    words = shlex.split(install_command("duckdb", "kazoo", "unheard-of"))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert words[4:] == ["duckdb>=1.1", "kazoo<2.12,>=2.11", "unheard-of"]


def test_without_metadata_names_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert shlex.split(install_command("pyiceberg"))[4:] == ["pyiceberg"]


def test_a_package_with_extras_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["pyiceberg[sql-sqlite]>=0.11; extra == 'tables'"]
    monkeypatch.setattr(metadata, "requires", lambda name: required)
    assert shlex.split(install_command("pyiceberg"))[4:] == ["pyiceberg[sql-sqlite]>=0.11"]
