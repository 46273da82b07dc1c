"""A broker that loads kio's messages does not carry what kio would import for tests."""

import subprocess
import sys

ASK = """
import sys
from headrace.wire.kafka import kio_codec
kio_codec.request_type(3, 12)
print("hypothesis" in sys.modules, "kio.static.primitive" in sys.modules)
"""


def test_kios_messages_are_loaded_without_hypothesis() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True"]
