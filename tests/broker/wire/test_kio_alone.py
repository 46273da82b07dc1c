"""A broker loads kio's messages without what kio would import for tests, in one order."""

import subprocess
import sys

ASK = """
import sys
from headrace.wire.kafka import kio_codec
kio_codec.request_type(3, 12)
print("hypothesis" in sys.modules, "kio.static.primitive" in sys.modules)
"""
ORDER = """
import sys
from headrace.wire.kafka import kio_codec
kio_codec.request_type(3, 12)
loaded = [name for name in sys.modules if name in ("kio.serial", "kio.schema.metadata")]
print(loaded[0])
"""


def test_kios_messages_are_loaded_without_hypothesis() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True"]


def test_every_thread_enters_kio_by_the_same_module() -> None:
    """By two of them, threads ended each other's imports as deadlocks."""
    done = subprocess.run(
        [sys.executable, "-c", ORDER], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["kio.serial"]
