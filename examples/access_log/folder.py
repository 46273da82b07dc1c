"""The demo's directory, and the copy of the pipeline's project in it."""

from __future__ import annotations

import shutil
from pathlib import Path

MARK = ".written-by-the-access-log-demo"
PROJECT = Path(__file__).parent / "pipeline"
DECLARATIONS = Path("transformations", "access_log.py")
FORMAT = 'FORMAT = "timed"'


def claim(out: Path) -> None:
    """Make `out` empty for this run; ValueError if it has files of another program."""
    if out.exists() and any(out.iterdir()):
        if not (out / MARK).exists():
            raise ValueError(f"{out} has files that the demo did not write; choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()


def copy_project(target: Path, line_format: str) -> Path:
    """Copy the project to `target`, for lines of a format of `PARSERS`; return `target`."""
    ignored = shutil.ignore_patterns("__pycache__", "data")
    shutil.copytree(PROJECT, target, ignore=ignored)
    declarations = target / DECLARATIONS
    text = declarations.read_text()
    if FORMAT not in text:
        raise ValueError(f"{PROJECT / DECLARATIONS} has no line {FORMAT}")
    declarations.write_text(text.replace(FORMAT, f'FORMAT = "{line_format}"', 1))
    return target
