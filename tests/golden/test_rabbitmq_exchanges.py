"""Exchange types of RabbitMQ 4.3.6: its recorded texts, and shares like its recorded ones."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.queues.refusals import Refused
from headrace.testing.clock import SimRandom
from headrace.wire.amqp.properties import Properties
from tests.support.queues.exchange_types import (
    add,
    assert_shares,
    by_properties,
    host_with,
    keys,
    only,
    routed,
)
from tests.support.queues.virtual_hosts import bind, queue, refusal, to_queue, unbind

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "rabbitmq-4.3.6/exchanges.json").read_text()
)
HASH = "x-consistent-hash"
QUORUM = {"x-queue-type": "quorum"}


def told(name: str) -> str:
    assert RECORDED[name]["code"] == 406
    return str(RECORDED[name]["error"])


@pytest.mark.parametrize("weight", ["0", "-1", "abc", "1.5", "", "1000", "1001", "100000"])
def test_weights_are_refused_with_the_recorded_texts(weight: str) -> None:
    host, recorded = host_with(HASH, {}), f"consistent-hash weight '{weight}'"
    if RECORDED[recorded] == "bound":
        add(host, "q", weight)
        return
    with pytest.raises(Refused) as refused:
        add(host, "q", weight)
    assert refusal(refused) == told(recorded)


@pytest.mark.parametrize(
    ("type_name", "arguments", "recorded"),
    [
        (HASH, {"hash-property": "nosuch"}, "consistent-hash hash-property bad"),
        (HASH, {"hash-header": "h", "hash-property": "message_id"}, "consistent-hash both"),
        ("x-delayed-message", {}, "x-delayed-message (plugin not there)"),
    ],
)
def test_exchanges_are_refused_with_the_recorded_texts(
    type_name: str, arguments: dict[str, object], recorded: str
) -> None:
    with pytest.raises(Refused) as refused:
        host_with(type_name, {}, arguments)
    assert refusal(refused) == told(recorded)


def test_bindings_of_local_random_are_refused_with_the_recorded_texts() -> None:
    host = host_with("x-local-random", {})
    queue(host, "quorum", QUORUM, durable=True)
    with pytest.raises(Refused) as refused:
        add(host, "q", "a")
    assert refusal(refused) == told("x-local-random with keys")
    with pytest.raises(Refused) as refused:
        bind(host, to_queue("e", "quorum"))
    assert refusal(refused) == told("x-local-random to quorum")


def test_weights_have_the_recorded_shares() -> None:
    recorded = RECORDED["consistent-hash"]["4000 keys weights 1,1,2"]
    host = host_with(HASH, {"h1": "1", "h2": "1", "h3": "2"})
    found = Counter(routed(host, sum(recorded.values())).values())
    for each in (found, recorded):
        assert_shares(each, {"h1": 1, "h2": 1, "h3": 2})


def test_new_and_unbound_queues_move_their_own_share_only() -> None:
    recorded = RECORDED["consistent-hash"]
    host = host_with(HASH, {"h1": "1", "h2": "1", "h3": "2"})
    before = routed(host, 1000)
    add(host, "h4")
    added = routed(host, 1000)
    moved = [key for key in before if before[key] != added[key]]
    assert {added[key] for key in moved} == {"h4"}
    for count in (len(moved), recorded["added a 4th (1 of 5 buckets): moved"]):
        assert_shares({"h4": count, "others": 1000 - count}, {"h4": 1, "others": 4})
    unbind(host, to_queue("e", "h1", "1"))
    after = routed(host, 1000)
    moved = [key for key in added if added[key] != after[key]]
    assert moved == [key for key in added if added[key] == "h1"]
    assert len(moved) < 300 < recorded["unbound h1 (1 of 5): moved"]


def test_second_binding_of_a_queue_does_not_change_its_share() -> None:
    host = host_with(HASH, {"d1": "1", "d2": "1"})
    before = routed(host, 1000)
    bind(host, to_queue("e", "d1", "5"))
    assert routed(host, 1000) == before
    for each in (Counter(before.values()), RECORDED[f"{HASH[2:]} second binding of a queue"]):
        assert_shares(each, {"d1": 1, "d2": 1})


def test_headers_and_properties_are_hashed() -> None:
    host = host_with(HASH, {"e1": "1", "e2": "1"}, {"hash-header": "h"})
    found = by_properties(host, [Properties(headers={"h": each}) for each in keys(500)])
    recorded = RECORDED["consistent-hash hash-header"]
    for each in (found, recorded["by header"]):
        assert_shares(each, {"e1": 1, "e2": 1})
    missing = by_properties(host, [Properties(headers={"other": each}) for each in keys(100)])
    assert sorted(missing.values()) == [100]
    assert sorted(recorded["header missing"].values()) == [0, 100]
    host = host_with(HASH, {"f1": "1", "f2": "1"}, {"hash-property": "message_id"})
    found = by_properties(host, [Properties(message_id=each) for each in keys(500)])
    for each in (found, RECORDED["consistent-hash hash-property message_id"]):
        assert_shares(each, {"f1": 1, "f2": 1})


@pytest.mark.parametrize("type_name", ["x-random", "x-local-random"])
def test_random_types_have_the_recorded_shares(type_name: str) -> None:
    recorded = RECORDED[type_name if type_name == "x-random" else f"{type_name} empty keys"]
    host = host_with(type_name, dict.fromkeys(recorded, ""))
    host.router.context.uniform = SimRandom(1).uniform
    found = Counter(only(host.router.route("e", "k")) for _ in range(900))
    for each in (found, recorded):
        assert_shares(each, dict.fromkeys(recorded, 1))


def test_modulus_has_the_recorded_shares() -> None:
    recorded = RECORDED["x-modulus-hash"]["900 keys"]
    found = Counter(routed(host_with("x-modulus-hash", dict.fromkeys(recorded, "")), 900).values())
    for each in (found, recorded):
        assert_shares(each, dict.fromkeys(recorded, 1))
