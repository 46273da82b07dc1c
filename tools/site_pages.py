"""Bring the pages of the repository's root into the site that mkdocs makes of docs/.

A hook of mkdocs (mkdocs.yml). README is the first page. Links between the root and docs lead to
pages of the site; links to files that are no page (code, the licence) become their text.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "GUARANTEES.md": "guarantees.md",
    "SECURITY.md": "security.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the root, and what the site calls them."""
LINK = re.compile(r"(!?)\[([^\]\n]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root's pages."""
    for name, page in PAGES.items():
        content = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of a page into those of the site."""
    there = {file.src_uri for file in files}
    return site_links(markdown, page.file.src_uri, there)


def site_links(markdown: str, page: str, there: set[str]) -> str:
    """Return the text of `page` with links as the site has them; `there` are the site's files."""
    ours = {site: name for name, site in PAGES.items()}
    place = "" if page in ours else posixpath.join("docs", posixpath.dirname(page))

    def changed(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups()
        if not target or ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(place, target))
        wanted = PAGES.get(path, path.removeprefix("docs/"))
        if wanted not in there and (ROOT / path).exists():
            return text
        way = posixpath.relpath(wanted, posixpath.dirname(page) or ".")
        return f"{image}[{text}]({way}{anchor or ''})"

    return LINK.sub(changed, markdown)
