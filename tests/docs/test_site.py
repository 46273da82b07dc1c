"""The site's links: pages of the root are pages of the site, and what is no page is text."""

import runpy

import pytest
import yaml

from tests.docs.processes import ROOT

THERE = {"index.md", "guarantees.md", "changelog.md", "spark.md", "adr/README.md", "images/a.svg"}


@pytest.mark.parametrize(
    ("page", "written", "on_the_site"),
    [
        ("index.md", "[x](docs/spark.md#rows)", "[x](spark.md#rows)"),
        ("index.md", "[x](GUARANTEES.md)", "[x](guarantees.md)"),
        ("index.md", "![x](docs/images/a.svg)", "![x](images/a.svg)"),
        ("index.md", "[the licence](LICENSE)", "the licence"),
        ("index.md", "[x](#below)", "[x](#below)"),
        ("index.md", "[x](https://example.org/a.md)", "[x](https://example.org/a.md)"),
        ("spark.md", "[x](../CHANGELOG.md)", "[x](changelog.md)"),
        ("spark.md", "[x](adr/README.md)", "[x](adr/README.md)"),
        ("adr/README.md", "[x](../spark.md)", "[x](../spark.md)"),
        ("adr/README.md", "[x](../../GUARANTEES.md#g1)", "[x](../guarantees.md#g1)"),
        ("spark.md", "[x](nowhere.md)", "[x](nowhere.md)"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, written: str, on_the_site: str) -> None:
    site_links = runpy.run_path(str(ROOT / "tools" / "site_pages.py"))["site_links"]
    assert site_links(written, page, THERE) == on_the_site


def test_the_site_has_neither_fonts_nor_search_from_elsewhere() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert site["theme"]["font"] is False
    assert site["plugins"] == ["search"]
    assert "http" not in (ROOT / "docs" / "site.css").read_text("utf-8")


def test_the_recorded_terminal_is_fetched_from_nowhere() -> None:
    image = (ROOT / "docs" / "images" / "session.svg").read_text("utf-8")
    assert "@font-face" not in image
    assert "url(http" not in image
