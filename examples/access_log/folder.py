"""The directory the demo writes to: its own, or none."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MARK = ".written-by-the-access-log-demo"


def claim(out: Path) -> None:
    """Make `out` empty for this run; ValueError where somebody else's files are in it."""
    if out.exists() and any(out.iterdir()):
        if not (out / MARK).exists():
            raise ValueError(f"{out} has files that the demo did not write; choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
