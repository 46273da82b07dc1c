"""The packages of a commit: the same bytes each time, and installed without git."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.__main__ import build
from tests.release.trial import Packages

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    return build(tmp_path_factory.mktemp("packages"), "--head")


def test_two_builds_of_a_commit_are_the_same_bytes(packages: Packages, tmp_path: Path) -> None:
    clone, out, temporary = tmp_path / "clone", tmp_path / "out", tmp_path / "temporary"
    temporary.mkdir()
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, clone], check=True)
    subprocess.run(
        [sys.executable, clone / "tools" / "dist.py", "--out", out],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(temporary), "TZ": "Japan", "LC_ALL": "C"},
        umask=0o077, check=True,
    )  # fmt: skip
    again = Packages(*(out / path.name for path in packages))
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in packages]


def test_packages_do_not_name_a_path_of_the_build(packages: Packages, tmp_path: Path) -> None:
    for path in packages:
        shutil.unpack_archive(path, tmp_path / path.name, "zip" if path.suffix == ".whl" else None)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert str(ROOT).encode() not in data, file
            assert b"headrace-dist-" not in data or file.name == "dist.py", file


def test_sdist_installs_without_git_and_without_a_checkout(
    packages: Packages, tmp_path: Path
) -> None:
    installed, alone = tmp_path / "installed", {"PATH": "", "HOME": str(tmp_path)}
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--target", installed, packages.sdist],
        cwd=tmp_path, env=alone, check=True,
    )  # fmt: skip
    told = subprocess.run(
        [sys.executable, "-m", "headrace", "--version"],
        cwd=tmp_path, env=alone | {"PYTHONPATH": str(installed)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.strip() == packages.wheel.name.split("-")[1]
    assert (installed / "headrace" / "config" / "samples" / "headrace.service").exists()


def test_uncommitted_changes_are_refused(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--shared", ROOT, clone], check=True)
    (clone / "README.md").write_text("changed")
    refused = subprocess.run(
        [sys.executable, clone / "tools" / "dist.py"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "README.md" in refused.stderr
    assert not (clone / "dist").exists()
