"""A leader that has counted its queue as empty stores nothing until it is deleted or reopened."""

import pytest

from headrace.remote_queues.leader.led_queue import REOPEN_SECONDS
from tests.support.queues.port_place import persistent
from tests.support.queues.remote_pair import RemotePlace


def closed(here: RemotePlace) -> int:
    """Have the home ask for the counts before a deletion; return the number of ready messages."""
    info = here.told(lambda done: here.remote.ask_counts(done, closes=True))
    ready: int = info.ready
    return ready


def published_later(here: RemotePlace, body: str) -> list[bool]:
    """Publish a message at the home; return the list that takes whether it is stored."""
    told: list[bool] = []
    assert here.host.publish(["q"], persistent(body))
    here.queue.when_stored(lambda unstored: told.append(not unstored))
    here.settle()
    return told


@pytest.fixture
def here() -> RemotePlace:
    """A durable queue that was used and is empty."""
    place = RemotePlace(durable=True)
    place.published("first")
    assert place.purge() == 1
    return place


def test_publish_behind_the_count_is_stored_once_the_deletion_is_refused(here: RemotePlace) -> None:
    assert closed(here) == 0
    told = published_later(here, "a")
    assert told == []
    here.consume()
    assert here.sent() == [], "it is not delivered either"
    here.remote.reopen()
    here.settle()
    assert told == [True]
    assert here.sent() == ["1:c:a"]


def test_publish_behind_the_count_is_confirmed_once_the_queue_is_deleted(here: RemotePlace) -> None:
    assert closed(here) == 0
    told = published_later(here, "a")
    here.delete()
    assert told == [True]


def test_queue_with_a_message_takes_others_while_its_deletion_is_decided(here: RemotePlace) -> None:
    here.published("a")
    assert closed(here) == 1
    assert published_later(here, "b") == [True]
    here.remote.reopen()
    here.settle()
    assert published_later(here, "c") == [True]


def test_queue_is_reopened_some_time_after_its_home_is_gone(here: RemotePlace) -> None:
    assert closed(here) == 0
    here.network.session.end()
    here.sessions.keep({})
    here.begin()
    leader = here.leader.queues["q"]
    local: list[bool] = []
    assert here.leader.publish(["q"], persistent("a"))
    leader.when_stored(lambda unstored: local.append(not unstored))
    here.settle()
    assert local == []
    here.world.clock.advance(REOPEN_SECONDS)
    here.settle()
    assert local == [True]


def test_two_deletions_at_once_reopen_the_queue_with_the_last_refusal(here: RemotePlace) -> None:
    assert closed(here) == 0
    assert closed(here) == 0
    told = published_later(here, "a")
    here.remote.reopen()
    here.settle()
    assert told == []
    here.remote.reopen()
    here.settle()
    assert told == [True]
