"""What a newer group keeps of a member that joined by the classic protocol."""

import struct

from headrace.coordination.groups.messages import JoinRequest
from tests.support.client.consumer_kit import Consumer, group_of, room

SUBSCRIPTION_TO_T = struct.pack(">hih1si", 0, 1, 1, b"t", -1)
"""Version 0: topics and no user data."""


def test_a_classic_member_is_known_by_its_clients_id_host_topics_and_times() -> None:
    place = room()
    Consumer(place, "new").beat()
    place.groups.join(
        JoinRequest(
            "g", "", "stays", "an app", "/10.0.0.7", 11_000, 21_000, "consumer",
            (("range", SUBSCRIPTION_TO_T),), needs_member_id=True, skips_assignment=True,
        ),
        lambda answer: None,
    )  # fmt: skip
    (member,) = (
        member for member in group_of(place).members.values() if member.subscription.instance_id
    )
    kept = member.subscription
    assert (kept.instance_id, kept.client_id, kept.client_host) == ("stays", "an app", "/10.0.0.7")
    assert (tuple(kept.topics), kept.rebalance_timeout_ms) == (("t",), 21_000)
    assert kept.classic is not None
    assert kept.classic.session_timeout_ms == 11_000
