"""The Makefile: a target that stands twice would run its last recipe and only warn."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_every_target_stands_once_and_says_what_it_does() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):(.*)$", MAKEFILE, re.MULTILINE)
    assert len(targets) > 10
    assert [name for name, count in Counter(name for name, _ in targets).items() if count > 1] == []
    assert [name for name, rest in targets if "## " not in rest] == []


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/install.md", "docs/releasing.md"]
)
def test_each_target_that_a_page_names_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
    text = (ROOT / page).read_text()
    named = set(re.findall(r"(?:^ *|`)make ([a-z][a-z-]*)", text, re.MULTILINE))
    assert named
    assert named <= targets


def test_an_environment_is_made_with_the_kernels_compiled() -> None:
    recipes = (ROOT / "tools" / "setup.sh").read_text()
    assert "\n.venv/bin/headrace arrow warm " in recipes
    for target in ("setup", "setup-dev"):
        assert re.search(rf"^{target}:.*\n\t@tools/setup\.sh ", MAKEFILE, re.MULTILINE)


def test_each_test_that_a_target_names_exists() -> None:
    named = set(re.findall(r"\btests/[\w/.*]+", MAKEFILE))
    assert [path for path in sorted(named) if not any(ROOT.glob(path))] == []
