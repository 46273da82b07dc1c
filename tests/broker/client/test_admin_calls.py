"""Topics and configurations through our own client: what is asked, what comes back, refusals."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from headrace.client.admin import topics as admin
from headrace.client.admin.topics import BROKER_RESOURCE, TOPIC_RESOURCE, ConfigEntry
from headrace.client.client import Client
from headrace.client.sync import connect, run
from headrace.model.errors import ApiError, ErrorCode
from headrace.testing import BrokerThread


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with BrokerThread() as broker, connect(broker.bootstrap) as connected:
        yield connected


def entry(client: Client, resource: int, name: str, key: str) -> ConfigEntry:
    """One key of a topic or broker."""
    (found,) = run(admin.describe_configs(client, resource, name, [key]))
    return found


def test_a_topic_is_made_as_asked_or_as_the_broker_likes(client: Client) -> None:
    configs = {"retention.ms": "1000", "cleanup.policy": "compact"}
    run(admin.create_topic(client, "asked", partitions=3, replication_factor=1, configs=configs))
    run(admin.create_topic(client, "left"))
    run(admin.create_topic(client, "only-looked-at", validate_only=True))
    known = run(client.metadata()).topics
    assert (len(known["asked"].partitions), len(known["left"].partitions)) == (3, 1)
    assert "only-looked-at" not in known
    assert entry(client, TOPIC_RESOURCE, "asked", "retention.ms").value == "1000"
    assert entry(client, TOPIC_RESOURCE, "asked", "cleanup.policy").value == "compact"


def test_what_was_set_is_told_apart_from_what_nobody_set(client: Client) -> None:
    run(admin.create_topic(client, "told", configs={"retention.ms": "1000"}))
    assert entry(client, TOPIC_RESOURCE, "told", "retention.ms") == ConfigEntry(
        "retention.ms", "1000", "topic", False, False
    )
    assert entry(client, TOPIC_RESOURCE, "told", "segment.ms").source == "default"
    everything = run(admin.describe_configs(client, TOPIC_RESOURCE, "told"))
    assert everything == sorted(everything)
    assert [one.name for one in everything if one.source == "topic"] == ["retention.ms"]
    assert entry(client, BROKER_RESOURCE, "0", "listeners").source == "static"
    assert entry(client, BROKER_RESOURCE, "0", "broker.id").read_only


def test_keys_are_set_and_taken_back_and_the_rest_stays(client: Client) -> None:
    run(admin.create_topic(client, "altered", configs={"retention.ms": "1", "segment.ms": "2"}))
    run(
        admin.alter_configs(
            client, TOPIC_RESOURCE, "altered", set_={"retention.bytes": "3"}, delete=["segment.ms"]
        )
    )
    own = run(admin.describe_configs(client, TOPIC_RESOURCE, "altered"))
    assert {one.name: one.value for one in own if one.source == "topic"} == {
        "retention.ms": "1",
        "retention.bytes": "3",
    }


@pytest.mark.parametrize(("name", "source"), [("0", "dynamic broker"), ("", "dynamic default")])
def test_a_brokers_key_is_set_for_it_or_for_all(client: Client, name: str, source: str) -> None:
    key = "log.retention.ms"
    run(admin.alter_configs(client, BROKER_RESOURCE, name, set_={key: "77777"}))
    found = entry(client, BROKER_RESOURCE, "0", key)
    assert (found.value, found.source, found.is_own) == ("77777", source, True)
    run(admin.alter_configs(client, BROKER_RESOURCE, name, delete=[key]))
    assert not entry(client, BROKER_RESOURCE, "0", key).is_own


def test_partitions_are_added_and_topics_deleted(client: Client) -> None:
    run(admin.create_topic(client, "grows", partitions=1))
    run(admin.create_partitions(client, "grows", 4))
    assert len(run(client.metadata(["grows"])).topics["grows"].partitions) == 4
    run(admin.delete_topic(client, "grows"))
    assert "grows" not in run(client.metadata()).topics


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda client: admin.create_topic(client, "a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (
            lambda client: admin.create_topic(client, "x", configs={"no.such": "1"}),
            ErrorCode.INVALID_CONFIG,
        ),
        (
            lambda client: admin.alter_configs(
                client, TOPIC_RESOURCE, "there", set_={"retention.ms": "soon"}
            ),
            ErrorCode.INVALID_CONFIG,
        ),
        (lambda client: admin.create_partitions(client, "there", 1), ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_a_refusal_is_raised_with_its_code_and_the_brokers_words(
    client: Client, call: Callable[[Client], Coroutine[Any, Any, None]], code: ErrorCode
) -> None:
    if "there" not in run(client.metadata()).topics:
        run(admin.create_topic(client, "there"))
    with pytest.raises(ApiError) as refused:
        run(call(client))
    assert refused.value.code is code
    assert str(refused.value) != code.name


def test_what_is_missing_is_said_to_be(client: Client) -> None:
    client.retry_seconds = 0
    try:
        for call in (
            admin.delete_topic(client, "missing"),
            admin.describe_configs(client, TOPIC_RESOURCE, "missing"),
        ):
            with pytest.raises(ApiError) as refused:
                run(call)
            assert admin.is_missing(refused.value.code)
    finally:
        client.retry_seconds = 30
    assert admin.is_missing(ErrorCode.UNKNOWN_TOPIC_ID)
    assert not admin.is_missing(ErrorCode.NOT_CONTROLLER)
