"""What `python -m build` makes: the wheel and the sdist that would be published."""

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEEL_BYTES_MAX = 2 << 20
IN_SDIST = {"LICENSE", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg", "src"}


def test_the_wheel_and_the_sdist_have_what_they_need_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77", reason="made before it was needed")
    source = tmp_path / "source"
    tracked = ["LICENSE", "README.md", "pyproject.toml", "src"]
    archive = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD", *tracked],
        cwd=ROOT, capture_output=True, check=False,
    )  # fmt: skip
    if archive.returncode:
        pytest.skip("no git checkout")
    (tmp_path / "source.tar").write_bytes(archive.stdout)
    with tarfile.open(tmp_path / "source.tar") as tar:
        tar.extractall(source, filter="data")
    out = tmp_path / "dist"
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "-o", str(out), str(source)],
        capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    assert "SetuptoolsDeprecationWarning" not in built.stdout + built.stderr
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    assert wheel.stat().st_size < WHEEL_BYTES_MAX
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
        told = Parser().parsestr(file.read(f"{info}/METADATA").decode())
        entries = file.read(f"{info}/entry_points.txt").decode()
    assert {name.split("/")[0] for name in names} == {
        "headrace", "pyspark_headrace", "pyspark_headrace_table", info,
    }  # fmt: skip
    assert "headrace/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Requires-Python"] == ">=3.11"
    assert told["Description-Content-Type"] == "text/markdown"
    assert str(told.get_payload()).startswith("# Headrace")
    assert "headrace = headrace.cli.main:main" in entries
    assert "[pytest11]\nheadrace = headrace.testing.plugin" in entries
    sources = {str(path.relative_to(source / "src")) for path in source.glob("src/**/*.py")}
    assert sources <= set(names), "every module is in the wheel"
    with tarfile.open(sdist) as tar:
        tops = {name.split("/")[1] for name in tar.getnames() if "/" in name}
    assert tops == IN_SDIST
