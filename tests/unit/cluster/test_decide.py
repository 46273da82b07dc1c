"""What the controller's decisions are asked of."""

from typing import Any

import pytest

from headrace.cluster.decide import decide
from headrace.model.invariant import InvariantError


def test_an_event_that_nobody_decides_on_ends_the_process() -> None:
    unknown: Any = "an event"
    with pytest.raises(InvariantError, match="what follows from an event"):
        decide(unknown, unknown)
