"""docs/typed-topics.md shows the type table that the decoders are held to."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_page_shows_the_type_table_of_the_tests() -> None:
    command = [sys.executable, str(ROOT / "tools" / "gen_typed_docs.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
