"""The small site that nginx serves while the log is captured: pages and assets of known sizes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PAGES = (
    "/",
    "/products/",
    "/products/turbine.html",
    "/products/sluice.html",
    "/products/penstock.html",
    "/docs/",
    "/docs/install.html",
    "/docs/operate.html",
    "/docs/faq.html",
    "/blog/",
    "/blog/spring-flood.html",
    "/blog/new-mill.html",
    "/about.html",
    "/contact.html",
)
ASSETS = {
    "/assets/site.css": 18_400,
    "/assets/app.js": 96_300,
    "/assets/search.js": 22_750,
    "/assets/logo.svg": 3_120,
    "/assets/hero.png": 148_000,
    "/assets/turbine.png": 61_500,
    "/assets/sluice.png": 54_200,
    "/assets/mill.png": 72_900,
    "/assets/text.woff2": 31_600,
    "/favicon.png": 1_150,
}
DOWNLOADS = {"/downloads/catalogue.pdf": 410_000, "/downloads/drawings.zip": 980_000}


def build(root: Path) -> None:
    """Write the site below `root`; sizes are what matters, so bodies are filler."""
    rng = random.Random(7)
    sizes = {page: rng.randrange(4_000, 38_000) for page in PAGES} | ASSETS | DOWNLOADS
    for path, size in sizes.items():
        file = root / (path.lstrip("/") + ("index.html" if path.endswith("/") else ""))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
