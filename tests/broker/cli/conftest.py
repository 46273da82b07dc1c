"""Asking a command of the broker that a file's own fixture `broker` has."""

import gc

import pytest

from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Asked, Says, asker, remarks_are_text, sayer

__all__ = ["asked", "remarks_are_text", "says"]


@pytest.fixture(autouse=True, scope="module")
def clients_that_tests_forget() -> None:
    """Collect librdkafka's clients of earlier files: they would write to later tests' output."""
    gc.collect()


@pytest.fixture
def says(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    """A function from a command's words to its exit code, answer and remarks."""
    return sayer(broker.bootstrap, capsys)


@pytest.fixture
def asked(says: Says) -> Asked:
    """A function from a command's words to its exit code and its JSON, held to the schema."""
    return asker(says)
