"""A small run of `make amqp-cluster-test`: every kind of fault once, a few thousand messages."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.namespaces import NoNamespaces, enclosed

ROOT = Path(__file__).parents[3]
SMALL = {"kills": 2, "pauses": 1, "partitions": 1, "messages": 5000, "rate": 500, "seed": 20261130}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_clients_of_a_cluster_lose_nothing_through_each_kind_of_fault() -> None:
    try:
        enclosed([])
    except NoNamespaces as error:
        pytest.skip(str(error))
    options = [f"--{name}={value}" for name, value in SMALL.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.outside.amqp_cluster", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
