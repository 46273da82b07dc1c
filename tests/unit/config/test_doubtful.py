"""Values that are allowed and may not be what was meant: warned of from which value on."""

import pytest

from headrace.config.cross_key_rules import doubtful
from headrace.config.definitions import BROKER

DEFAULTS = {name: definition.default for name, definition in BROKER.items()}


def test_defaults_are_not_doubtful() -> None:
    assert doubtful(DEFAULTS) == []


@pytest.mark.parametrize(
    ("name", "sound", "warned"),
    [
        ("log.segment.bytes", 1 << 20, (1 << 20) - 1),
        ("default.replication.factor", 1, 2),
    ],
)
def test_the_first_doubtful_value_is_warned_of_by_name(name: str, sound: int, warned: int) -> None:
    assert doubtful({**DEFAULTS, name: sound}) == []
    (warning,) = doubtful({**DEFAULTS, name: warned})
    assert name in warning
    assert str(warned) in warning
