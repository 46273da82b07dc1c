"""State of share groups that is read from afar: what changed meanwhile is not gone over."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.coordination.groups.share import admin_offsets, describe_offsets
from headrace.coordination.groups.share.admin_offsets import OffsetsContext
from headrace.coordination.share.share_partition import SharePartition, SharePartitionState
from headrace.coordination.share.share_partitions import SharePartitions
from headrace.coordination.share.state_port import StateRead, StateSummary
from headrace.delivery.cursor_state import CursorState
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from tests.support.cluster.late_states import LateStates
from tests.support.coordination.share_room import GROUP, TOPIC, ShareRoom, share_room
from tests.support.processes.broker import play, until

E = ErrorCode


class Afar:
    """The group's administration and its partitions, both behind `states`."""

    def __init__(self, share: ShareRoom) -> None:
        broker = share.here.broker
        self.share = share
        self.states = LateStates(share.share.states)
        self.partitions = SharePartitions(
            clock=broker.clock,
            disk=broker.disk,
            states=self.states,
            settings=share.share.settings,
            find=broker.partition_by_id,
        )
        self._context = OffsetsContext(
            self.states, self.partitions, lambda: broker.image, broker.partition_by_id
        )
        self._shard = share.here.coordinators.groups.shard(GROUP)

    def alter(self, wanted: dict[int, int]) -> list[Any]:
        """What the asker is told, once it is."""
        told: list[Any] = []
        admin_offsets.alter(self._shard, self._context, GROUP, [(TOPIC, wanted)], told.append)
        return told

    def describe(self, wanted: list[tuple[str, list[int]]] | None) -> list[Any]:
        """The same, of DescribeShareGroupOffsets."""
        told: list[Any] = []
        describe_offsets.describe(self._shard, self._context, GROUP, wanted, told.append)
        return told

    def delete(self) -> list[Any]:
        """The same, of DeleteShareGroupOffsets."""
        told: list[Any] = []
        admin_offsets.delete(self._shard, self._context, GROUP, [TOPIC], told.append)
        return told

    def delete_late(self) -> list[ErrorCode]:
        """The same, of DeleteGroups, whose deletion of state is answered late."""
        told: list[ErrorCode] = []
        admin_offsets.delete_group(self._shard, self._context, GROUP, told.append)
        return told

    async def delete_group(self) -> None:
        """Delete the group at once, whatever waits."""
        told: list[ErrorCode] = []
        self.share.share.delete_group(GROUP, told.append)
        await until(lambda: told)
        assert told == [E.NONE]

    async def answer(self) -> None:
        """Let go what waits, or will."""
        await until(lambda: self.states.held)
        self.states.answer()


def tell(place: Path, story: Callable[[Afar], Any], **more: Any) -> None:
    async def whole() -> None:
        async with share_room(place, **more) as share:
            await story(Afar(share))

    play(whole())


def loading(afar: Afar) -> tuple[SharePartition, list[ApiError | None]]:
    """The first partition, whose state is being read, and what is told who waits for it."""
    found, told = afar.partitions.get(afar.share.key(0)), list[ApiError | None]()
    found.when_loaded(told.append)
    assert (found.state, told) == (SharePartitionState.LOADING, [])
    assert found.look(1 << 20, 10, at_least_one=True) is None
    return found, told


def test_nothing_is_handed_out_before_the_state_is_read(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        await afar.share.join("a")
        await afar.share.write(3)
        found, told = loading(afar)
        await afar.answer()
        await until(lambda: told)
        assert (found.state, told, found.start) == (SharePartitionState.ACTIVE, [None], 0)
        look = found.look(1 << 20, 10, at_least_one=True)
        assert look is not None
        assert look.at == 0

    tell(tmp_path, story)


def test_a_partition_that_ended_while_its_state_was_read_stays_so(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        begun: list[ErrorCode | None] = []
        afar.share.share.states.initialize([(afar.share.key(0), 0)], 3, begun.append)
        await until(lambda: begun)
        found, told = loading(afar)
        afar.partitions.forget(found.key)
        await afar.answer()
        await afar.share.advance(1)
        assert found.state is SharePartitionState.ENDED
        assert [None if error is None else error.code for error in told] == [E.FENCED_STATE_EPOCH]
        assert afar.partitions.known(found.key) is None

    tell(tmp_path, story)


@pytest.mark.parametrize("error", [E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_partition_whose_state_cannot_be_read_ends_by_why(
    tmp_path: Path, error: ErrorCode
) -> None:
    async def story(afar: Afar) -> None:
        await afar.share.join("a")
        afar.states.error = error
        found, told = loading(afar)
        await afar.answer()
        assert [None if why is None else why.code for why in told] == [error]
        assert found.state is SharePartitionState.ENDED

    tell(tmp_path, story)


def test_a_partition_of_which_nothing_is_kept_ends_by_that(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        _, told = loading(afar)
        await afar.answer()
        (error,) = told
        assert error is not None
        assert error.code is E.UNKNOWN_TOPIC_OR_PARTITION

    tell(tmp_path, story)


def test_offsets_are_described_when_all_are_read(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        altered = afar.alter({0: 2, 1: 0})
        assert altered == []
        await afar.answer()  # what was kept
        assert altered == []
        await afar.answer()  # that it begins anew
        await until(lambda: altered)
        ((error, (outcome,)),) = altered
        assert (error, outcome.partitions) == (None, {0: E.NONE, 1: E.NONE})
        for wanted in (None, [(TOPIC, [1, 0, 1])]):
            told = afar.describe(wanted)
            assert told == []
            await afar.answer()
            ((topic,),) = told
            starts = {0: 2, 1: 0}
            indexes = [0, 1] if wanted is None else [1, 0, 1]
            assert [part.start for part in topic.partitions] == [starts[at] for at in indexes]
        afar.states.error = E.NOT_COORDINATOR
        told = afar.describe([(TOPIC, [0])])
        await afar.answer()
        ((topic,),) = told
        assert [part.error for part in topic.partitions] == [E.NOT_COORDINATOR]

    tell(tmp_path, story, partitions=2)


def test_a_group_that_somebody_joined_while_its_state_was_read_keeps_its_offsets(
    tmp_path: Path,
) -> None:
    async def story(afar: Afar) -> None:
        told = afar.alter({0: 1})
        await afar.share.join("a")
        epoch = afar.share.state_epoch()
        found, _ = loading(afar)
        afar.states.answer()
        ((error, outcomes),) = told
        assert (error.code, outcomes) == (E.NON_EMPTY_GROUP, [])
        assert afar.share.state_epoch() == epoch
        assert found.state is not SharePartitionState.ENDED
        assert afar.share.members() == ["a"]

    tell(tmp_path, story)


def test_state_that_cannot_be_read_is_not_begun_anew_and_makes_no_group(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        afar.states.error = E.COORDINATOR_LOAD_IN_PROGRESS
        told = afar.alter({0: 1})
        await afar.answer()
        ((error, outcomes),) = told
        assert (error.code, outcomes) == (E.COORDINATOR_LOAD_IN_PROGRESS, [])
        assert not afar.states.held
        assert afar.share.kept() is None
        assert not afar.share.share.is_share_group(GROUP)

    tell(tmp_path, story)


def test_state_that_does_not_begin_leaves_no_group_behind(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        told = afar.alter({0: 1})
        await afar.answer()
        afar.states.error = E.NOT_COORDINATOR
        await afar.answer()
        ((error, outcomes),) = told
        assert (error.code, outcomes) == (E.NOT_COORDINATOR, [])
        assert not afar.share.share.is_share_group(GROUP)

    tell(tmp_path, story)


def test_who_joins_while_state_begins_anew_keeps_the_group(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        told = afar.alter({0: 1})
        await afar.answer()
        await afar.share.join("a")
        afar.states.error = E.NOT_COORDINATOR
        await afar.answer()
        ((error, _),) = told
        assert error.code is E.NOT_COORDINATOR
        assert afar.share.members() == ["a"]

    tell(tmp_path, story)


def test_partitions_that_got_state_while_others_began_anew_stay_the_groups(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        told = afar.alter({0: 1})
        await afar.answer()
        await afar.share.join("a")
        group = afar.share.share.describe(GROUP).group
        assert group is not None
        await until(lambda: len(group.parts()) == 2)
        await afar.answer()
        await until(lambda: told)
        ((error, _),) = told
        assert error is None
        assert [at for _, (_, at) in group.parts()] == [0, 1]

    tell(tmp_path, story, partitions=2)


def test_a_group_deleted_while_its_state_begins_anew_stays_deleted(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        told = afar.alter({0: 1})
        await afar.answer()
        await afar.delete_group()
        await afar.answer()
        ((error, outcomes),) = told
        assert (error.code, outcomes) == (E.GROUP_ID_NOT_FOUND, [])
        assert not afar.share.share.is_share_group(GROUP)

    tell(tmp_path, story)


def test_a_group_deleted_while_its_offsets_are_deleted_is_not_written_again(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        altered = afar.alter({0: 1})
        await afar.answer()
        await afar.answer()
        await until(lambda: altered)
        told = afar.delete()
        await until(lambda: afar.states.held)
        await afar.delete_group()
        log = afar.share.here.broker.partition(OFFSETS_TOPIC, 0).log
        end = log.end_offset
        afar.states.answer()
        await afar.share.advance(1)
        ((error, outcomes),) = told
        assert (error.code, outcomes) == (E.GROUP_ID_NOT_FOUND, [])
        assert log.end_offset == end

    tell(tmp_path, story)


async def emptied(afar: Afar) -> None:
    """The group has state of a partition and no member."""
    await afar.share.join("a")
    await afar.share.beat("a", -1)


def test_a_group_that_two_requests_delete_at_once_is_deleted_once(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        await emptied(afar)
        told = afar.delete_late()
        await until(lambda: afar.states.held)
        await afar.delete_group()
        await afar.answer()
        await until(lambda: told)
        assert told == [E.GROUP_ID_NOT_FOUND]

    tell(tmp_path, story)


def test_a_group_created_after_a_deletion_outlives_an_earlier_one(tmp_path: Path) -> None:
    async def story(afar: Afar) -> None:
        await emptied(afar)
        told = afar.delete_late()
        await until(lambda: afar.states.held)
        await afar.delete_group()
        await afar.share.join("b")
        await afar.answer()
        await until(lambda: told)
        assert told == [E.GROUP_ID_NOT_FOUND]
        assert afar.share.members() == ["b"]

    tell(tmp_path, story)


def test_state_that_is_being_loaded_is_waited_for_to_be_served_and_not_to_be_shown(
    tmp_path: Path,
) -> None:
    async def story(afar: Afar) -> None:
        states, key = afar.share.share.states, afar.share.key(0)
        begun, read, shown = list[Any](), list[Any](), list[Any]()
        states.initialize([(key, 7)], 3, begun.append)
        await until(lambda: begun)
        partition = afar.share.here.broker.partition(SHARE_STATE_TOPIC, 0)
        states.led.resign(0)
        states.led.lead(0, partition, partition.leader_epoch + 1)
        states.read(key, -1, read.append)
        states.read_summary(key, shown.append)
        (error,) = shown
        assert (read, error.code) == ([], E.COORDINATOR_LOAD_IN_PROGRESS)
        await until(lambda: read)
        assert read == [StateRead(3, CursorState(7))]
        states.read_summary(key, shown.append)
        assert shown[1:] == [StateSummary(3, -1, 7, 0)]

    tell(tmp_path, story)
