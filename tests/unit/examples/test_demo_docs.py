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


def test_every_test_that_guarantees_cites_exists() -> None:
    cited = CITED.findall((ROOT / "GUARANTEES.md").read_text())
    assert cited
    missing = [
        f"{file}::{name}"
        for file, name in cited
        if not re.search(rf"(?m)^(def|class) {name}\b|^{name} = ", (ROOT / file).read_text())
    ]
    assert missing == []
