"""Digests of a project's files: what changes them, and which files are left out."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from headrace.pipeline.plan import code_digest as module
from headrace.pipeline.plan.code_digest import code_digest
from headrace.pipeline.project import load_project

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = 'name = "shop"\n[profile.prod]\nconfiguration = { "spark.a" = 1 }\n'


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "pipeline.toml").write_text(SETTINGS)
    (tmp_path / "transformations" / "all.py").write_text("1")
    return tmp_path


def digest(shop: Path, profile: str | None = None) -> str:
    return code_digest(load_project(shop, profile))


@pytest.mark.parametrize(
    "name", ["transformations/all.py", "helpers.py", "schemas/orders.ddl", "pipeline.toml"]
)
def test_a_changed_or_new_file_changes_the_digest(shop: Path, name: str) -> None:
    before = digest(shop)
    (shop / name).parent.mkdir(exist_ok=True)
    with (shop / name).open("a") as file:
        file.write("\n# more")
    assert digest(shop) != before


def test_a_renamed_file_changes_the_digest(shop: Path) -> None:
    before = digest(shop)
    (shop / "transformations" / "all.py").rename(shop / "transformations" / "other.py")
    assert digest(shop) != before


@pytest.mark.parametrize(
    "name",
    ["tests/test_a.py", "data/orders/x.parquet", ".git/HEAD", "__pycache__/a.pyc", "env/lib/a.py"],
)
def test_tests_storage_and_environments_are_left_out(shop: Path, name: str) -> None:
    (shop / "env").mkdir()
    (shop / "env" / "pyvenv.cfg").write_text("")
    before = digest(shop)
    (shop / name).parent.mkdir(exist_ok=True, parents=True)
    (shop / name).write_text("x")
    assert digest(shop) == before


def test_settings_of_the_profile_change_the_digest(shop: Path) -> None:
    assert digest(shop) != digest(shop, "prod")


@pytest.mark.parametrize("package", ["pyspark", "headrace"])
def test_another_version_changes_the_digest(
    shop: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    before = digest(shop)
    monkeypatch.setattr(module, "version", lambda name: "9.9" if name == package else version(name))
    assert digest(shop) != before


def test_large_files_count_by_size_and_time(shop: Path) -> None:
    large = shop / "model.bin"
    large.write_bytes(b"x" * (module.CONTENT_BYTES_MAX + 1))
    before = digest(shop)
    os.utime(large, ns=(1, 1))
    assert digest(shop) != before


def test_a_link_to_nothing_is_no_error(shop: Path) -> None:
    before = digest(shop)
    (shop / "gone").symlink_to(shop / "nowhere")
    assert digest(shop) != before
