"""When a leader delivers, and which replicas may join the ISR, by what copies have confirmed."""

from typing import Any

import pytest

from headrace.copies.copying import COPY_SECONDS
from headrace.copies.frame_copy import UNSENT_BYTES_MAX
from headrace.delivery.settled_state import decode_frames
from headrace.model.nouns import LeaderEpoch
from headrace.queue_stores.log.settlement_counts import Counts
from headrace.queues.engine.parts.handed_queue import HandedQueue
from tests.support.log.log import content
from tests.support.queues.copied import OTHER, CopiedQueue
from tests.support.queues.followers import FOLLOWER, LEADER, LOST


def loaded() -> CopiedQueue:
    here = CopiedQueue()
    here.load_late()
    return here


def test_no_message_is_delivered_before_all_members_have_its_position() -> None:
    here = loaded()
    here.published("a")
    here.pass_time(0.3, answers=False)
    assert here.gets() == []
    here.pass_time(0.3)
    assert here.gets() == ["a"]


def test_frames_that_raise_the_limit_for_deliveries_are_sent_at_once() -> None:
    here = loaded()
    bodies = [f"{number}" for number in range(5 * here.ahead)]
    here.published(*bodies)
    here.pass_time(0.3)
    got: list[str] = []
    begun = here.now
    while len(got) < len(bodies):
        got += here.gets(len(bodies))
        here.pass_time(0.001)
    assert got == bodies
    assert here.now - begun < COPY_SECONDS


def test_frames_of_settlements_alone_are_sent_each_100_ms() -> None:
    here = loaded()
    here.published(*"a" * 40)
    here.pass_time(0.3)
    here.gets(40)
    here.pass_time(0.3)
    sent = 0
    for tag in range(1, 41):
        here.acknowledge(tag)
        here.pass_time(0.02, answers=False)
        sent += sum(broker == FOLLOWER for broker, *_ in here.transport.asked)
        here.answer()
    assert 5 <= sent <= 9


def test_settled_messages_are_not_waited_for_by_the_next_leader() -> None:
    here = loaded()
    here.published(*"abc")
    here.pass_time(0.3)
    assert here.gets() == [*"abc"]
    here.acknowledge(2, 3)
    here.pass_time(0.3)
    here.published("d")
    again = CopiedQueue(here.world.after_power_cut(here.world.disk.left_by_a_kill()))
    again.fetching = []
    again.load_late()
    queue: Any = again.q
    queue._levels[0].take_below(3, 10)
    again.pass_time(0.3)
    taken = queue._levels[0].take_below(3, 10)
    assert taken.positions == [0]
    queue._levels[0].fresh = 0
    assert not HandedQueue.lacks_below(queue, 0, 3), "the others are settled"
    queue._levels[0].store._settlement.waiting = Counts(3)
    assert HandedQueue.lacks_below(queue, 0, 4), "a message is not committed"


def test_silent_broker_is_asked_each_100_ms_whatever_is_delivered() -> None:
    here = loaded()
    here.fetching = [FOLLOWER, OTHER]
    here.published(*"a" * 5 * here.ahead)
    here.pass_time(0.3)
    asked = 0
    for _ in range(20):
        here.gets(here.ahead // 4)
        here.pass_time(0.01)
        if any(broker == OTHER for broker, *_ in here.transport.asked):
            here.bring_forward(OTHER)
            here.transport.refuse(LOST)
            asked += 1
    assert 1 <= asked <= 3


def test_replica_outside_of_the_isr_holds_up_nothing() -> None:
    here = loaded()
    here.published("a")
    here.pass_time(0.3)
    assert here.gets() == ["a"]
    assert not here.partition.may_join(OTHER)


def test_replica_joins_once_it_has_a_complete_frame() -> None:
    here = loaded()
    here.fetching = [FOLLOWER, OTHER]
    term = here.partition.role.term
    assert term is not None
    here.pass_time(0.3)
    assert OTHER not in term.maximal
    here.answer(OTHER)
    here.pass_time(0.1)
    assert OTHER in term.maximal


def test_replica_that_lags_behind_confirmed_frames_may_not_join() -> None:
    here = loaded()
    here.pass_time(0.3)
    here.answer(OTHER)
    here.published(*"abc")
    here.pass_time(0.3)
    assert here.gets(2) == ["a", "b"]
    here.acknowledge(1, 2)
    here.pass_time(0.3)
    assert not here.partition.may_join(OTHER)
    here.answer(OTHER)
    here.pass_time(0.2)
    here.answer(OTHER)
    assert here.partition.may_join(OTHER)


def test_leader_that_is_alone_waits_for_a_replica_that_joins() -> None:
    here = CopiedQueue(in_sync=(LEADER,))
    here.fetching = []
    here.load_late()
    here.published(*"abc")
    here.pass_time(0.3)
    here.answer(OTHER)
    assert here.partition.may_join(OTHER)
    assert here.gets(1) == ["a"]
    here.acknowledge(1)
    here.pass_time(0.2)
    assert here.partition.may_join(OTHER), "the frame is confirmed with the replica only"
    here.pass_time(0.5)
    assert not here.partition.may_join(OTHER), "it does not answer"
    assert here.gets(1) == ["b"]


def test_second_without_a_confirmation_stops_deliveries() -> None:
    here = loaded()
    here.published(*"abc")
    here.pass_time(0.3)
    assert here.gets(1) == ["a"]
    here.acknowledge(1)
    here.pass_time(0.9, answers=False)
    assert here.gets(1) == ["b"]
    here.pass_time(0.4, answers=False)
    assert here.gets(1) == []
    told = here.readable_told
    here.answer()
    here.pass_time(0.2)
    assert here.readable_told > told
    assert here.gets(1) == ["c"]


def test_deliveries_go_on_when_the_late_member_has_left_the_isr() -> None:
    here = loaded()
    here.published(*"ab")
    here.pass_time(0.3)
    assert here.gets(1) == ["a"]
    here.acknowledge(1)
    here.pass_time(1.5, answers=False)
    assert here.gets(1) == []
    here.commit_isr(LEADER)
    here.pass_time(0.2, answers=False)
    assert here.gets(1) == ["b"]


def test_broker_without_an_answer_is_sent_no_complete_frame_until_it_answers() -> None:
    here = loaded()
    here.pass_time(0.3)
    here.bring_forward(OTHER)
    here.transport.refuse(LOST)
    here.copying._led[here.partition].by_broker[OTHER].lose_base()
    number = here.store._settlement._number
    for _ in range(3):
        here.pass_time(0.2)
        here.bring_forward(OTHER)
        asked = here.transport.refuse(LOST)
        assert [question.content for question in asked] == [b""]
    assert here.store._settlement._number == number
    here.pass_time(0.2)
    here.answer(OTHER)
    here.pass_time(0.3)
    here.answer(OTHER)
    assert here.partition.may_join(OTHER)


def test_too_many_unsent_frames_are_replaced_by_a_complete_one() -> None:
    here = loaded()
    here.pass_time(0.3)
    here.answer(OTHER)
    copy = here.copying._led[here.partition].by_broker[OTHER]
    copy.add(copy.confirmed, bytes(UNSENT_BYTES_MAX + 1), whole=False)
    assert copy.needs_whole
    here.published("a")
    here.pass_time(0.3)
    (asked,) = (each for each in here.transport.asked if each[0] == OTHER)
    (question,) = asked[1]
    assert question.whole_bytes == len(question.content)


def test_first_frame_of_a_leader_is_complete_and_numbers_go_on() -> None:
    here = loaded()
    here.published(*"ab")
    here.pass_time(0.3)
    assert here.gets(1) == ["a"]
    here.acknowledge(1)
    here.pass_time(0.3)
    path = here.store._settlement.path
    frames = [state for state, _ in decode_frames(content(here.world.disk, path))]
    again = CopiedQueue(here.world.after_power_cut(here.world.disk.left_by_a_kill()))
    again.load_late()
    again.pass_time(0.3)
    first, *_ = (state for state, _ in decode_frames(content(again.world.disk, path)))
    assert first.whole
    assert first.number == frames[-1].number + 1
    assert first.start == 1


@pytest.mark.parametrize("confirmed", [True, False])
def test_delivery_in_a_later_epoch_of_a_leader_is_marked_by_the_next_one(confirmed: bool) -> None:
    here = loaded()
    here.published("a")
    here.pass_time(0.3, answers=confirmed)
    here.partition.role.lead(LeaderEpoch(3), here._replicas())
    here.answer()
    here.published("b")
    assert here.gets(2) == ["a"]
    here.pass_time(0.3)
    assert here.gets() == ["b"]
    again = CopiedQueue(here.world.after_power_cut(here.world.disk.left_by_a_kill()))
    again.load_late()
    again.pass_time(0.3)
    assert again.gets(2) == ["a*", "b*"]


def test_transient_messages_stay_when_another_replica_takes_over() -> None:
    here = loaded()
    here.publish("a", persistent=False)
    here.pass_time(0.3)
    again = CopiedQueue(here.world.after_power_cut(here.world.disk.left_by_a_kill()))
    again.load_late()
    again.pass_time(0.3)
    assert again.gets() == ["a*"]


def test_queue_with_one_replica_in_a_cluster_waits_for_no_other() -> None:
    here = CopiedQueue()
    here.partition.role.lead(LeaderEpoch(3))
    here.fetching = []
    here.load_late()
    here.published("a")
    assert here.gets() == ["a"]
    here.acknowledge(1)
    here.pass_time(0.2)
    assert here.transport.asked == []
    assert here.store.settled().durably == 1


def test_end_of_a_term_sends_nothing_more() -> None:
    here = loaded()
    here.published("a")
    here.pass_time(0.3)
    queue = here.copying._led[here.partition]
    copy = queue.by_broker[FOLLOWER]
    copy.add(copy.confirmed, b"frame", whole=False)
    here.copying._copy_soon(queue)  # at the end of this turn
    here.store.drop()
    here.transport.asked.clear()
    here.pass_time(0.5, answers=False)
    assert here.transport.asked == []
    assert not here.partition.may_join(FOLLOWER)
