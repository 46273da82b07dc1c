"""Asking a command of the broker that a file's own fixture `broker` has."""

import pytest

from headrace.cli.shared.output import speak_json
from headrace.testing import BrokerThread
from tests.support.cli_kit import Asked, Says, asker, sayer


@pytest.fixture(autouse=True)
def remarks_are_text() -> None:
    """As each command begins, whatever one before it in this process printed."""
    speak_json(False)


@pytest.fixture
def says(broker: BrokerThread, capsys: pytest.CaptureFixture[str]) -> Says:
    """A function from a command's words to its exit code, answer and remarks."""
    return sayer(broker.bootstrap, capsys)


@pytest.fixture
def asked(says: Says) -> Asked:
    """A function from a command's words to its exit code and its JSON, held to the schema."""
    return asker(says)
