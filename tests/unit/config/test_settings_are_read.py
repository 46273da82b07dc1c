"""Each documented setting is read by some code, or is said to have no effect."""

import re
from pathlib import Path

import pytest

import headrace
from headrace.config.definitions import BROKER, COARSER, TOPIC
from headrace.config.keys.entities import GROUP, bounds_of_group_key
from headrace.config.keys.oauthbearer import OAuthBearerKeys
from headrace.config.keys.row import attribute
from headrace.config.keys.topic import OF_REPLICAS
from headrace.model.protocols import ROWS

ROOT = Path(headrace.__file__).parent
OWN_SETTINGS = {row.settings.partition(":")[0] for row in ROWS if row.settings}
"""Modules in which protocols declare settings of their own."""
FILES = [
    path
    for path in ROOT.rglob("*.py")
    if path.parent.name != "keys"
    and ".".join(("headrace", *path.relative_to(ROOT).with_suffix("").parts)) not in OWN_SETTINGS
]
SOURCE = "\n".join(path.read_text("utf-8") for path in FILES)
WORDS = frozenset(re.findall(r"\w+", SOURCE))
QUOTED = frozenset(re.findall(r'"([\w.]+)"', SOURCE))
LOG_ATTRIBUTES = frozenset(
    re.findall(
        r"\.(\w+)",
        "\n".join(path.read_text("utf-8") for path in FILES if "config" not in path.parts),
    )
)
GROUP_BOUNDS = frozenset(key for name in GROUP for key in bounds_of_group_key(name))
COARSER_KEYS = frozenset(key for keys in COARSER.values() for key in keys)
OAUTH_PREFIX = "sasl.oauthbearer."


def is_group_key_read(name: str) -> bool:
    """Some code asks for the key, or for what follows the kind of group that it is of."""
    return name in QUOTED or name.partition(".")[2] in QUOTED


def is_broker_key_read(name: str) -> bool:
    if attribute(name) in WORDS or name in QUOTED or name in GROUP_BOUNDS | COARSER_KEYS:
        return True
    if name in OAuthBearerKeys.KEYS:
        part = name.removeprefix(OAUTH_PREFIX)
        return f"}}{part}" in SOURCE or name in OAUTH_WORDS
    group_key = name.removeprefix("group.")
    return group_key in GROUP and is_group_key_read(group_key)


OAUTH_WORDS = frozenset({"org.apache.kafka.sasl.oauthbearer.allowed.urls"})
"""Read by the constant that names it (`ALLOWED_URLS`)."""


@pytest.mark.parametrize("name", [name for name, row in BROKER.items() if row.in_use])
def test_a_broker_key_that_is_in_use_is_read(name: str) -> None:
    assert is_broker_key_read(name)


@pytest.mark.parametrize(
    "name", [name for name, row in TOPIC.items() if row.in_use and row not in OF_REPLICAS]
)
def test_a_topic_key_that_is_in_use_is_read(name: str) -> None:
    assert attribute(name) in LOG_ATTRIBUTES


@pytest.mark.parametrize("name", [name for name in GROUP if not name.startswith("streams.")])
def test_a_group_key_is_read(name: str) -> None:
    assert is_group_key_read(name)


def test_a_key_nobody_reads_is_found() -> None:
    assert not is_broker_key_read("log.preallocate")
    assert not is_broker_key_read("producers.per.partition.most")
    assert not is_group_key_read("streams.num.standby.replicas")
