"""Coordinator loads that end early: another broker leads, or the log cannot be read."""

import logging

import pytest

from headrace.coordination.groups.group_shard import GroupShard
from headrace.model.errors import ErrorCode, StorageError
from headrace.shards.shard import ShardState
from tests.support.coordination.groups_kit import Room


def loading() -> tuple[Room, GroupShard]:
    """A shard with an offset in its log, which a thread is reading."""
    place = Room()
    place.commit()
    place.groups.led.resign(0)
    place.partition.log.cold = True
    place.disk.hold = True
    place.groups.led.lead(0, place.partition, 1)
    place.clock.advance()
    shard = place.groups.led.at(0)
    assert shard is not None
    assert shard.state is ShardState.LOADING
    return place, shard


def unreadable(place: Room, patch: pytest.MonkeyPatch) -> None:
    """Let the read in progress fail."""

    def fail(*_: object, **__: object) -> None:
        raise StorageError("a test")

    patch.setattr(place.partition.log, "read_from_disk", fail)


def test_records_read_after_another_broker_leads_are_not_applied() -> None:
    place, shard = loading()
    place.groups.led.resign(0)
    place.disk.release()
    place.clock.advance(1)
    assert shard.state is ShardState.CLOSED
    assert not shard.context.offsets.by_group
    assert not shard.context.groups


def test_a_log_that_cannot_be_read_fails_its_shard_and_those_that_wait_are_called(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place, shard = loading()
    called: list[ShardState] = []
    place.groups.when_loaded(lambda: called.append(shard.state))
    unreadable(place, monkeypatch)
    place.disk.release()
    place.clock.advance()
    assert called == [ShardState.FAILED]
    assert place.commit() == [ErrorCode.NOT_COORDINATOR]
    assert "cannot load the coordinator's state" in caplog.text
    monkeypatch.undo()
    place.groups.led.lead(0, place.partition, 2)
    place.clock.advance()
    assert place.committed() == 7, "a later term loads it again"


def test_a_read_that_fails_after_another_broker_leads_is_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place, shard = loading()
    unreadable(place, monkeypatch)
    place.groups.led.resign(0)
    with caplog.at_level(logging.WARNING):
        place.disk.release()
        place.clock.advance()
    assert (shard.state, caplog.messages) == (ShardState.CLOSED, [])
