"""Each bound of each key, and of keys between each other: what is at the edge, and one beyond."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.config.broker import BrokerConfig, load
from headrace.config.definitions import BROKER, COARSER, TOPIC
from headrace.config.entity_settings import check_group_config
from headrace.config.keys.entities import CLIENT_METRICS, GROUP
from headrace.config.keys.row import attribute
from headrace.config.topic_settings import parse_topic_configs
from headrace.config.value_types import INT_MAX, Definition, Kind
from headrace.model.errors import ConfigError

NUMBERS = {Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}
TABLES = {"broker": BROKER, "topic": TOPIC, "group": GROUP, "client metrics": CLIENT_METRICS}


def numeric() -> Iterator[Any]:
    for table, keys in TABLES.items():
        for definition in keys.values():
            if definition.kind in NUMBERS or definition.kind is Kind.DOUBLE:
                yield pytest.param(definition, id=f"{table}:{definition.name}")


def edges(definition: Definition) -> tuple[float | None, float | None]:
    """The least and the greatest value as the reference tells them; None: the type's."""
    words = re.fullmatch(r"at least (\S+)|(\S+) to (\S+)", definition.must_be)
    if words is None:
        return None, None
    if words[1] is not None:
        return float(words[1]), None
    return float(words[2]), float(words[3])


def beyond(definition: Definition, edge: float, sign: int) -> str:
    step = 1 if definition.kind in NUMBERS else 1e-6
    return shown(definition, edge + sign * step)


def shown(definition: Definition, value: float) -> str:
    return repr(value) if definition.kind is Kind.DOUBLE else str(int(value))


@pytest.mark.parametrize("definition", [*numeric()])
def test_a_number_is_taken_at_its_edges_and_refused_one_beyond(definition: Definition) -> None:
    low, high = edges(definition)
    for edge, sign in ((low, -1), (high, 1)):
        if edge is not None:
            assert definition.parse(shown(definition, edge)) == edge
            with pytest.raises(ValueError, match="must"):
                definition.parse(beyond(definition, edge, sign))
    bits = NUMBERS.get(definition.kind)
    if bits is not None:
        top = 1 << bits
        if high is None:
            assert definition.parse(str(top - 1)) == top - 1
        with pytest.raises(ValueError, match=r"fit|between"):
            definition.parse(str(top))
        if low is None:
            assert definition.parse(str(-top)) == -top
        with pytest.raises(ValueError, match=r"fit|least|between"):
            definition.parse(str(-top - 1))


BOUNDS = {
    "delivery.count.limit": (4, 6),
    "partition.max.record.locks": (1500, 2500),
    "record.lock.duration.ms": (20_000, 40_000),
}
"""Of keys whose bounds are bounded themselves."""


def between_keys() -> Iterator[Any]:
    for kind in ("consumer", "share"):
        for name in BROKER:
            prefix = f"group.{kind}.min."
            if name.startswith(prefix):
                what = name.removeprefix(prefix)
                key, most = f"group.{kind}.{what}", f"group.{kind}.max.{what}"
                yield pytest.param(name, key, most, id=f"{kind} {what}")


def given(**texts: str) -> BrokerConfig:
    return load("", {}, texts)[0]


def texts_of(key: str, value: int, *others: tuple[str, int]) -> dict[str, str]:
    return {key: str(value), **{name: str(number) for name, number in others}}


@pytest.mark.parametrize(("least", "key", "most"), [*between_keys()])
def test_what_groups_are_given_lies_within_what_they_may_be_given(
    least: str, key: str, most: str
) -> None:
    low, high = BOUNDS.get(least.partition(".min.")[2], (7000, 9000))
    bounds = ((least, low), (most, high))
    for value in (low, high):
        assert getattr(given(**texts_of(key, value, *bounds)), attribute(key)) == value
    for value in (low - 1, high + 1):
        with pytest.raises(
            ConfigError, match=f"{re.escape(key)}={value}: must be between .* change"
        ):
            given(**texts_of(key, value, *bounds))


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_members_are_to_be_heard_of_before_their_session_ends(kind: str) -> None:
    heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
    others = ((f"group.{kind}.min.session.timeout.ms", 5000), (session, 6000))
    assert given(**texts_of(heartbeat, 5999, *others))
    with pytest.raises(ConfigError, match=f"{re.escape(heartbeat)}=6000: not less than .*=6000"):
        given(**texts_of(heartbeat, 6000, *others))


@pytest.mark.parametrize(
    "names",
    [
        ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
        ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ],
)
def test_the_least_or_shortest_may_be_the_greatest_and_not_one_more(names: tuple[str, str]) -> None:
    for low, high in ((5000, 5000), (4999, 5000)):
        given(**texts_of(names[0], low, (names[1], high)))
    with pytest.raises(ConfigError, match=f"{re.escape(names[0])}=5001: more than"):
        given(**texts_of(names[0], 5001, (names[1], 5000)))


@pytest.mark.parametrize(
    ("finer", "coarser", "factor"),
    [
        ("log.retention.ms", "log.retention.minutes", 60_000),
        ("log.retention.ms", "log.retention.hours", 3_600_000),
        ("log.roll.ms", "log.roll.hours", 3_600_000),
        ("log.roll.jitter.ms", "log.roll.jitter.hours", 3_600_000),
    ],
)
def test_coarser_units_stand_in_for_finer_up_to_their_ends(
    finer: str, coarser: str, factor: int
) -> None:
    assert coarser in COARSER[finer]
    for number in (3, INT_MAX):
        assert getattr(given(**{coarser: str(number)}), attribute(finer)) == number * factor
    assert getattr(given(**{coarser: "3", finer: "7"}), attribute(finer)) == 7


@pytest.mark.parametrize("coarser", COARSER["log.retention.ms"])
def test_no_end_of_retention_stays_none_in_any_unit(coarser: str) -> None:
    assert given(**{coarser: "-1"}).log_retention_ms == -1


def test_the_nearer_unit_wins() -> None:
    both = {"log.retention.minutes": "2", "log.retention.hours": "1"}
    assert given(**both).log_retention_ms == 120_000


@pytest.mark.parametrize(("node", "broker", "right"), [(3, 3, True), (3, 2, False), (3, -1, True)])
def test_node_id_and_broker_id_are_one(node: int, broker: int, right: bool) -> None:
    texts = {"node.id": str(node), "broker.id": str(broker)}
    if right:
        assert given(**texts).broker_id == 3
        return
    with pytest.raises(ConfigError, match=r"node\.id=3: but broker\.id=2"):
        given(**texts)


def test_a_topics_least_lag_of_compaction_may_be_its_longest_and_not_one_more() -> None:
    parse_topic_configs({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(ConfigError, match=r"min\.compaction\.lag\.ms=6: more than"):
        parse_topic_configs({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_a_single_groups_session_lies_within_the_brokers_bounds(kind: str) -> None:
    broker = given(**{
        f"group.{kind}.min.session.timeout.ms": "40000",
        f"group.{kind}.max.session.timeout.ms": "50000",
    })  # fmt: skip
    key = f"{kind}.session.timeout.ms"
    for value in (40_000, 50_000):
        check_group_config({key: str(value)}, broker)
    with pytest.raises(ConfigError, match="greater than or equal"):
        check_group_config({key: "39999"}, broker)
    with pytest.raises(ConfigError, match="less than or equal"):
        check_group_config({key: "50001"}, broker)


@pytest.mark.parametrize("kind", ["consumer", "share"])
def test_a_single_groups_session_is_longer_than_its_heartbeat(kind: str) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    broker = given(**{f"group.{kind}.max.heartbeat.interval.ms": "60000"})
    check_group_config({session: "50001", heartbeat: "50000"}, broker)
    with pytest.raises(ConfigError, match=f"{re.escape(session)} must be greater than"):
        check_group_config({session: "50000", heartbeat: "50000"}, broker)
