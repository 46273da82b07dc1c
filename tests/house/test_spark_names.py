"""Docs and docstrings write Spark's own names as Spark has them, not as packages of ours."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent.name for path in (ROOT / "src/headrace/spark").glob("*/__init__.py"))
# `spark.python.worker.reuse` once became `spark.sessions.python.…` with the module `python`.
OURS = re.compile(rf"(?<![\w.])spark\.({'|'.join(PACKAGES)})\.\w+")


def test_no_text_mixes_a_package_of_ours_into_a_name_of_sparks() -> None:
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]
    assert PACKAGES
    assert texts
    found = {
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in texts
        for match in OURS.finditer(path.read_text())
    }
    assert found == set()
