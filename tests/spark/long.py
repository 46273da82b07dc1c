"""What needs drivers or minutes of its own: `make spark-test` runs it, `make test` does not."""

import os

import pytest

long_only = pytest.mark.skipif(
    "HEADRACE_LONG" not in os.environ, reason="takes minutes: make spark-test"
)
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Environment of drivers that live for a few batches: they need not compile their code well."""
