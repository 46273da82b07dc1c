"""The prose is held to the tree: links lead somewhere, cited tests exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path.relative_to(ROOT) for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern)
)
CITED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = (ROOT / page).read_text()
    targets = re.findall(r"\]\(([^)#]+)", text)
    missing = [
        target
        for target in targets
        if not target.startswith("http") and not (ROOT / page.parent / target).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", ["GUARANTEES.md", "docs/replication.md"])
def test_every_test_that_is_cited_exists(page: str) -> None:
    cited = CITED.findall((ROOT / page).read_text())
    assert cited
    missing = [
        f"{file}::{name}"
        for file, name in cited
        if not re.search(rf"(?m)^(def|class) {name}\b|^{name} = ", (ROOT / file).read_text())
    ]
    assert missing == []


def test_every_rule_of_replication_names_a_test_or_is_said_not_to_be_built() -> None:
    text = (ROOT / "docs/replication.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and " | " in line]
    rules = [row for row in rows if not row.startswith("| rule |")]
    assert len(rules) > 30
    assert [row for row in rules if not CITED.search(row) and "*not built*" not in row] == []


def test_every_guarantee_names_the_tests_that_attack_it() -> None:
    text = (ROOT / "GUARANTEES.md").read_text()
    claims, tests = text.split("## Tests")
    ids = re.findall(r"(?m)^\| (G\d+) \| ", claims)
    rows = re.findall(r"(?m)^\| (G\d+) \| (.+) \|$", tests)
    assert len(ids) > 20
    assert ids == [name for name, _ in rows]
    assert [name for name, cited in rows if "`tests/" not in cited] == []
