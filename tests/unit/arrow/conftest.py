"""What tests of `headrace.arrow.open` stand on."""

import pytest

from tests.support.client.open_topic import SMALL
from tests.support.log.log import World


@pytest.fixture
def world() -> World:
    """A log directory on a simulated disk, whose segments are small."""
    return World(config=SMALL)
