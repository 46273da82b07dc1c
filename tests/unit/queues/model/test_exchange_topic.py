"""Arguments that say in which topic an exchange stores its messages, and by which header."""

from collections.abc import Mapping

import pytest

from headrace.queue_stores.queue_settings import ExchangeTopic
from headrace.queues.model.exchange_topic import (
    KEY_HEADER,
    TOPIC,
    exchange_topic,
    is_target,
    target_name,
    topic_of_target,
)
from headrace.queues.refusals import Refused


@pytest.mark.parametrize("header", ["k", "k" * 255, "é" * 127, "\udcff" * 255])
def test_a_header_has_a_name_of_up_to_255_bytes(header: str) -> None:
    stored = exchange_topic({TOPIC: "t", KEY_HEADER: header}, "e")
    assert stored == ExchangeTopic("t", header)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({TOPIC: "t", KEY_HEADER: "k" * 256}, "a header's name has 1 to 255 bytes"),
        ({TOPIC: "t", KEY_HEADER: "é" * 128}, "a header's name has 1 to 255 bytes"),
        ({TOPIC: "t", KEY_HEADER: ""}, "a header's name has 1 to 255 bytes"),
        ({TOPIC: "t", KEY_HEADER: 5}, f"invalid type 'signedint' for arg '{KEY_HEADER}'"),
        ({KEY_HEADER: 5}, f"invalid type 'signedint' for arg '{KEY_HEADER}'"),
    ],
)
def test_other_names_of_headers_are_refused(arguments: Mapping[str, object], text: str) -> None:
    with pytest.raises(Refused, match=text):
        exchange_topic(arguments, "e")


@pytest.mark.parametrize("header", [None, "k", "a\nb"])
def test_a_route_leads_back_to_what_it_was_made_of(header: str | None) -> None:
    stored = ExchangeTopic("t", header)
    assert topic_of_target(target_name(stored)) == stored
    assert is_target(target_name(stored))
    assert not is_target("t")


def test_no_two_ways_to_store_share_a_route() -> None:
    ways = [ExchangeTopic(*way) for way in (("t",), ("t", "k"), ("t", "l"), ("u",), ("u", "k"))]
    assert len({target_name(way) for way in ways}) == len(ways)
