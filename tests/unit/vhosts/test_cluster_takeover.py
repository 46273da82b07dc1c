"""The takeover of declarations that nodes of the metadata store hold, by brokers of a cluster."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.log import file_names
from headrace.ports.store import Node, Operation, SessionLost
from headrace.posix.store.embedded_store import EmbeddedStore
from headrace.queues.model.stored_model import ExchangeRecord, QueueRecord, Record
from headrace.queues.model.stored_records import encode_record, record_key
from headrace.queues.model.vhost_table import VhostTable
from headrace.vhosts.declarations import takeover
from headrace.vhosts.declarations.followed_table import FollowedTable
from headrace.vhosts.declarations.takeover import ClusterTakeover, DeclarationNodes, Found

QUEUE = QueueRecord("q", False, {"x-queue-type": "classic"})
UNKNOWN_TYPE = ExchangeRecord("e", "x-unknown", False, False, {})
SECONDS_MAX = 10.0


class FailingStore(EmbeddedStore):
    """A store whose next deletions fail before they are carried out."""

    failures = 0

    async def multi(self, operations: Sequence[Operation]) -> list[Node | str | None]:
        if self.failures:
            self.failures -= 1
            raise SessionLost("the store is away")
        return await super().multi(operations)


class Log:
    """The log of declarations, with the table of the coordinator."""

    def __init__(self) -> None:
        self.table = FollowedTable(VhostTable, lambda vhost, applied: None, 0.0)
        self.keys: list[bytes] = []
        self.created = 0
        self.is_led = True

    async def create(self) -> None:
        self.created += 1

    async def append(self, vhost: str, found: Sequence[Found]) -> bool:
        assert {each.vhost for each in found} == {vhost}
        if self.is_led:
            held = self.table.hold()
            self.keys += [key for key, _ in takeover.apply_found(self.table, held, found)]
            self.table.commit(held)
        return self.is_led


class Former:
    """The metadata store with the nodes of `records`, and a takeover of them."""

    def __init__(self, store: FailingStore) -> None:
        self.store = store
        self.nodes = DeclarationNodes(store)
        self.log = Log()
        self.takeover = ClusterTakeover(self.nodes, self.log.create, self.log.append)

    async def write(self, *records: Record) -> None:
        for record in records:
            path = f"{takeover.DECLARATIONS}/{record_key('/', record).hex()}"
            await self.store.create(path, encode_record("/", record), parents=True)

    async def run(self) -> None:
        await asyncio.wait_for(self.takeover.run(), SECONDS_MAX)


Story = Callable[[Former], Coroutine[Any, Any, None]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Story], None]:
    """Plays a story with a takeover that looks for nodes without a pause."""
    monkeypatch.setattr(takeover, "RETRY_SECONDS", 0.0)

    async def played(story: Story) -> None:
        store = FailingStore(str(tmp_path / file_names.METADATA))
        try:
            await story(Former(store))
        finally:
            await store.close()

    return lambda story: asyncio.run(played(story))


def test_declaration_of_an_unknown_type_does_not_keep_brokers_from_loading(
    play: Callable[[Story], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def story(here: Former) -> None:
        await here.write(UNKNOWN_TYPE)
        await here.run()
        assert not await here.nodes.exist()

    play(story)
    assert "x-unknown" in caplog.text


def test_refused_declaration_is_kept_in_the_log_beside_the_others(
    play: Callable[[Story], None],
) -> None:
    async def story(here: Former) -> None:
        refused = QueueRecord("refused", False, {"x-max-length": -1})
        await here.write(refused, QUEUE)
        await here.run()
        keys = {record_key("/", record) for record in (refused, QUEUE)}
        assert set(here.log.keys) == keys
        assert len(here.log.keys) == 2
        assert set(here.log.table.records) == {record_key("/", QUEUE)}

    play(story)


def test_store_that_fails_after_the_append_has_each_declaration_appended_once(
    play: Callable[[Story], None],
) -> None:
    async def story(here: Former) -> None:
        await here.write(QUEUE)
        here.store.failures = 2
        await here.run()
        assert here.log.keys == [record_key("/", QUEUE)]
        assert not await here.nodes.exist()

    play(story)


def test_nodes_stay_until_their_coordinator_has_committed_them(
    play: Callable[[Story], None],
) -> None:
    async def story(here: Former) -> None:
        await here.write(QUEUE)
        here.log.is_led = False
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(here.takeover.run(), 0.05)
        assert await here.nodes.exist()
        here.log.is_led = True
        await here.run()
        assert here.takeover.is_done
        assert not await here.nodes.exist()

    play(story)


def test_log_is_not_created_without_nodes(play: Callable[[Story], None]) -> None:
    async def story(here: Former) -> None:
        await here.run()
        assert here.takeover.is_done
        assert not here.log.created

    play(story)
