"""What tests of `headrace.arrow.open` stand on."""

import pytest

from tests.support.log import World
from tests.support.open_topic import SMALL


@pytest.fixture
def world() -> World:
    """A log directory on a simulated disk, whose segments are small."""
    return World(config=SMALL)
