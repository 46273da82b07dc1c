"""The prose is held to the tree: links lead somewhere, cited tests exist, tables tell the truth."""

import re
from pathlib import Path

import pytest

from headrace.frontends.kafka.registry import APIS

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT) for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern)
)
CITED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
ROW = re.compile(r"\| (\d+) \| (\w+) \| (\d+)(?:–(\d+))? \| (hot)? ?\|")


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


def test_the_protocol_table_is_what_is_served() -> None:
    rows = ROW.findall((ROOT / "docs/protocol.md").read_text())
    documented = [
        (int(key), name.lower(), int(low), int(high or low), bool(hot))
        for key, name, low, high, hot in rows
    ]
    served = [
        (
            int(api.key),
            api.key.name.lower().replace("_", ""),
            api.min_version,
            api.max_version,
            api.hot,
        )
        for api in sorted(APIS, key=lambda api: api.key)
    ]
    assert documented == served
