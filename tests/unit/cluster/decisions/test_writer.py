"""What the controller writes: in how many steps, and what it reads again when it is in doubt."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from headrace.broker.metadata_image import BrokerInfo
from headrace.cluster.controller import writer
from headrace.cluster.controller.writer import ATTEMPTS_MAX, Outcome, Writer
from headrace.cluster.decisions import changes
from headrace.cluster.decisions.events import TopicsCreated, TopicsDeleted
from headrace.cluster.decisions.facts import Change, ClusterFacts
from headrace.cluster.decisions.orders import Lead
from headrace.cluster.store import znodes
from headrace.cluster.store.catalog import OPERATIONS_PER_MULTI, Catalog
from headrace.cluster.store.stored_topic import StoredTopic
from headrace.cluster.topics.creation import Planned
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.ports.store import BadVersion, Node, Operation, SessionEvents, SessionLost
from headrace.testing.sim.ensemble import Ensemble, EnsembleSession

ZERO = BrokerId(0)


class Session(EnsembleSession):
    """Counts its writes; `before` and `after` of the next ones fail or do what a test wants."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble, 1000, "controller", SessionEvents())
        self.sizes: list[int] = []
        self.before: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self.lost_after = False

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        self.sizes.append(len(operations) - 1)  # the first checks that we are the controller
        if self.before:
            await self.before.pop(0)()
        done = await super().multi(operations)
        if self.lost_after:
            self.lost_after = False
            raise SessionLost("the answer was lost")
        return done


class Here:
    """A controller's facts and its writer, and another's."""

    def __init__(self) -> None:
        ensemble = Ensemble(0)
        self.store = Session(ensemble)
        self.other = Catalog(ensemble.session("other"))
        self.catalog = Catalog(self.store)
        self.facts = ClusterFacts()
        self.rival = ClusterFacts()

    async def begin(self) -> None:
        await self.catalog.prepare()
        assert await self.catalog.elect(ZERO, 0)
        self.facts.brokers[ZERO] = BrokerInfo(ZERO, (), None, 1)
        self.writer = Writer(self.catalog, self.facts)
        self.store.sizes.clear()

    async def by_another(self, topic: StoredTopic) -> None:
        """Have a topic created that we have not heard of."""
        operations = changes.creation(self.rival, topic).operations
        await self.other.store.multi(operations)


def play(story: Callable[[Here], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        here = Here()
        await here.begin()
        await story(here)

    asyncio.run(whole())


def topic(name: str, partitions: int = 1, number: int = 1) -> StoredTopic:
    planned = Planned(name, ((ZERO,),) * partitions, {})
    return StoredTopic.of_plan(planned, number.to_bytes(16, "big"))


def test_what_is_written_is_believed_and_read_back_the_same() -> None:
    async def story(here: Here) -> None:
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([topic("a", 2), topic("b")]), outcome)
        assert [change.topic for change in outcome.taken] == ["a", "b"]
        assert outcome.refused == {}
        assert set(here.facts.topics) == {"a", "b"} == set(await here.catalog.topics())
        assert len(here.store.sizes) == 1, "both in one write"

    play(story)


def test_a_topic_that_is_there_is_refused_and_the_others_are_made() -> None:
    async def story(here: Here) -> None:
        await here.writer.carry_out(TopicsCreated([topic("a")]), Outcome())
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([topic("a", number=2), topic("b")]), outcome)
        assert [change.topic for change in outcome.taken] == ["b"]
        assert outcome.refused == {TopicPartition("a", -1): ErrorCode.TOPIC_ALREADY_EXISTS}

    play(story)


@pytest.mark.parametrize(
    ("sizes", "steps"),
    [
        ((500, 500), [1000]),
        ((500, 501), [500, 501]),
        ((1000, 1), [1000, 1]),
        ((1500, 1, 2), [1500, 3]),
        ((600, 600, 400), [600, 1000]),
        ((1, 1500), [1, 1500]),
        ((), []),
    ],
)
def test_changes_are_written_in_steps_of_as_many_operations_as_the_store_takes(
    sizes: tuple[int, ...], steps: list[int]
) -> None:
    assert OPERATIONS_PER_MULTI == 1000
    wanted: list[Any] = [Change("t", ("operation",) * size) for size in sizes]  # type: ignore[arg-type]
    batches = list(writer._batches(wanted))
    assert [sum(len(change.operations) for change in batch) for batch in batches] == steps
    assert [change for batch in batches for change in batch] == wanted


def test_changes_that_only_repeat_what_is_there_are_not_written() -> None:
    async def story(here: Here) -> None:
        taken: list[Change] = []
        assert await here.writer.write([Change("t")], taken)
        assert taken == [Change("t")]
        assert here.store.sizes == []

    play(story)


def test_who_was_slower_reads_what_the_other_wrote_and_tells_its_replicas() -> None:
    async def story(here: Here) -> None:
        here.store.before.append(lambda: here.by_another(topic("a", 2, 7)))
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([topic("a")]), outcome)
        assert outcome.refused == {TopicPartition("a", -1): ErrorCode.TOPIC_ALREADY_EXISTS}
        assert here.facts.topics["a"].topic_id == (7).to_bytes(16, "big")
        created, *told = outcome.taken
        assert created.created is here.facts.topics["a"]
        orders = [pair for change in told for pair in change.orders]
        assert [change.shown for change in told] == [(0,), (1,)]
        assert [broker for broker, _ in orders] == [ZERO, ZERO]
        assert all(isinstance(order, Lead) and order.replication.is_new for _, order in orders)
        more = Outcome()
        await here.writer.carry_out(TopicsCreated([topic("b")]), more)
        assert [change.topic for change in more.taken] == ["b"]
        assert not here.writer._uncertain, "what was read is not in doubt"

    play(story)


def test_what_was_written_before_another_was_faster_is_not_refused_as_there() -> None:
    async def story(here: Here) -> None:
        async def nothing() -> None:
            return

        async def changed() -> None:
            raise BadVersion("/brokers/topics/b")

        here.store.before += [nothing, changed]
        outcome = Outcome()
        large = [topic("a", 400), topic("b", 400, 2)]
        await here.writer.carry_out(TopicsCreated(large), outcome)
        assert [change.topic for change in outcome.taken] == ["a", "b"]
        assert outcome.refused == {}
        assert len(here.store.sizes) == 3

    play(story)


def test_a_topic_that_was_half_made_when_another_was_faster_is_made_whole() -> None:
    async def story(here: Here) -> None:
        async def nothing() -> None:
            return

        async def changed() -> None:
            raise BadVersion("/brokers/topics/a")

        here.store.before += [nothing, changed]
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([topic("a", 1000)]), outcome)
        assert outcome.refused == {}
        made = [index for change in outcome.taken for index, _ in change.states]
        assert made == list(range(changes.PARTITIONS_PER_CHANGE, 1000))
        assert len((await here.catalog.topics(["a"]))["a"].states) == 1000
        assert here.facts.topics["a"] == (await here.catalog.topics(["a"]))["a"]

    play(story)


def test_an_answer_that_was_lost_is_found_out_before_anything_else_is_decided() -> None:
    async def story(here: Here) -> None:
        here.store.lost_after = True
        outcome = Outcome()
        with pytest.raises(SessionLost):
            await here.writer.carry_out(TopicsCreated([topic("a")]), outcome)
        assert outcome.taken == []
        assert "a" not in here.facts.topics
        again = Outcome()
        await here.writer.carry_out(TopicsCreated([topic("a", number=2)]), again)
        assert again.refused == {TopicPartition("a", -1): ErrorCode.TOPIC_ALREADY_EXISTS}
        assert here.facts.topics["a"].topic_id == (1).to_bytes(16, "big")
        assert [change.created is not None for change in again.taken] == [True, False]

    play(story)


def test_a_deletion_whose_answer_was_lost_is_taken_up_once() -> None:
    async def story(here: Here) -> None:
        await here.writer.carry_out(TopicsCreated([topic("a")]), Outcome())
        here.store.lost_after = True
        with pytest.raises(SessionLost):
            await here.writer.carry_out(TopicsDeleted(["a"]), Outcome())
        assert here.facts.deleting == set()
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([]), outcome)
        assert here.facts.deleting == {"a"}
        (change,) = outcome.taken
        assert change.deleted
        assert change.operations == ()
        assert len(change.orders) == 1
        here.writer._doubt([change])
        again = Outcome()
        await here.writer.carry_out(TopicsCreated([]), again)
        assert again.taken == [], "it is under way"

    play(story)


def test_a_topic_that_went_meanwhile_is_forgotten() -> None:
    async def story(here: Here) -> None:
        await here.writer.carry_out(TopicsCreated([topic("a")]), Outcome())
        await here.other.store.create(f"{znodes.DELETE_TOPICS}/a", b"")
        await here.catalog.end_deletion("a")
        here.writer._doubt([Change("a")])
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([]), outcome)
        assert outcome.taken == []
        assert here.facts.topics == {}

    play(story)


def test_only_what_has_changed_of_a_topic_in_doubt_is_told_again() -> None:
    async def story(here: Here) -> None:
        await here.writer.carry_out(TopicsCreated([topic("a", 2)]), Outcome())
        node = await here.other.store.get(znodes.state_path("a", 1))
        await here.other.store.set(znodes.state_path("a", 1), node.value, node.version)
        here.writer._doubt([Change("a")])
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([]), outcome)
        (change,) = outcome.taken
        assert (change.created, change.shown) == (None, (1,))
        ((_, order),) = change.orders
        assert isinstance(order, Lead)
        assert (order.replication.partition_epoch, order.replication.is_new) == (1, False)

    play(story)


def test_a_store_that_keeps_changing_is_given_up_after_twenty_attempts() -> None:
    async def story(here: Here) -> None:
        async def changed() -> None:
            raise BadVersion("/brokers/topics/a")

        here.store.before += [changed] * (ATTEMPTS_MAX + 1)
        with pytest.raises(ApiError, match="the metadata store keeps changing") as given_up:
            await here.writer.carry_out(TopicsCreated([topic("a")]), Outcome())
        assert given_up.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        assert len(here.store.sizes) == ATTEMPTS_MAX == 20

    play(story)


def test_who_is_the_controller_no_more_is_told_so() -> None:
    async def story(here: Here) -> None:
        here.catalog.resign()
        with pytest.raises(ApiError) as refused:
            await here.writer.carry_out(TopicsCreated([topic("a")]), Outcome())
        assert refused.value.code is ErrorCode.NOT_CONTROLLER

    play(story)


def test_settings_that_a_topic_left_behind_are_replaced_by_the_new_ones() -> None:
    async def story(here: Here) -> None:
        path = znodes.topic_config_path("b")
        await here.other.store.create(path, znodes.encode_config({"retention.ms": "1"}))
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([topic("a"), topic("b")]), outcome)
        assert [change.topic for change in outcome.taken] == ["a", "b"]
        assert (await here.other.topics())["b"].config == {}
        assert here.facts.orphan_configs == {}

    play(story)


def test_a_topic_that_somebody_wrote_without_sense_is_passed_over() -> None:
    async def story(here: Here) -> None:
        async def scrawl() -> None:
            await here.other.store.create(znodes.topic_path("b"), b"of no sense")

        here.store.before.append(scrawl)
        outcome = Outcome()
        await here.writer.carry_out(TopicsCreated([topic("a"), topic("b")]), outcome)
        assert [change.topic for change in outcome.taken] == ["a"]
        assert outcome.refused == {TopicPartition("b", -1): ErrorCode.TOPIC_ALREADY_EXISTS}
        assert here.facts.passed_over == ["b"]

    play(story)
