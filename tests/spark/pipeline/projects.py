"""Projects of pipelines written to a directory, for tests of their plans."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.pipeline.load import loaded
from headrace.pipeline.project import load_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headrace.pipeline.load import Loaded

HEAD = """\
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from headrace import pipeline as hp
"""


def write_project(place: Path, text: str, settings: str = "") -> Path:
    """Write a project of one file of declarations, and return its directory."""
    (place / "transformations").mkdir(parents=True, exist_ok=True)
    (place / "pipeline.toml").write_text(f'name = "shop"\n{settings}')
    (place / "transformations" / "all.py").write_text(HEAD + text)
    return place


@contextmanager
def declared(place: Path, text: str) -> Iterator[Loaded]:
    """Load a project of one file of declarations."""
    with loaded(load_project(write_project(place, text))) as found:
        assert found.findings == []
        yield found
