"""What needs drivers or minutes of its own: `make spark-test` runs it, `make test` does not."""

import os

import pytest

long_only = pytest.mark.skipif(
    not {"HEADRACE_LONG", "HEADRACE_LIVE"} & os.environ.keys(),
    reason="takes minutes: make spark-test",
)
"""HEADRACE_LIVE (`make pipeline-test`): these alone, and no test in its long form."""
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Environment of drivers that live for a few batches: they need not compile their code well."""
