"""`x-expires` while the broker stores a declaration or reads a message: it does not pass."""

import pytest

from headrace.model.errors import HeadraceError
from headrace.queues.model.durability import KeptDone, NothingKept
from headrace.wire.amqp.model_methods import BasicGet, BasicGetEmpty, QueueDeclare
from tests.support.amqp.channels import QueueRoom, names

DECLARE = QueueDeclare(queue="q", durable=True, arguments={"x-expires": 100})


class SlowDeclarations(NothingKept):
    """Declarations that are stored when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[KeptDone] = []

    def when_kept(self, done: KeptDone) -> None:
        """Note who waits."""
        self.waiting.append(done)

    def stored(self, error: HeadraceError | None = None) -> None:
        """Say that all is stored, or why it is not."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(error)


@pytest.fixture
def room() -> QueueRoom:
    """A broker whose declarations are stored late."""
    made = QueueRoom(late=True)
    made.broker.virtual_hosts.hosts["/"].model.kept = SlowDeclarations()
    return made


def store_of(room: QueueRoom) -> SlowDeclarations:
    """Return the store of the declarations."""
    kept = room.broker.virtual_hosts.hosts["/"].model.kept
    assert isinstance(kept, SlowDeclarations)
    return kept


def test_queue_is_there_when_its_declaration_is_answered_late(room: QueueRoom) -> None:
    client = room.client()
    assert client.say(DECLARE) == []
    room.clock.advance(5)
    assert "q" in room.queues
    store_of(room).stored()
    assert names(client.heard()) == ["QueueDeclareOk"]
    room.clock.advance(0.099)
    assert "q" in room.queues
    room.clock.advance(0.002)
    assert "q" not in room.queues


def test_second_declaration_in_flight_keeps_the_queue_as_well(room: QueueRoom) -> None:
    first, second = room.client(), room.client()
    first.say(DECLARE)
    waiting = list(store_of(room).waiting)
    second.say(DECLARE)
    waiting[0](None)
    room.clock.advance(5)
    assert "q" in room.queues
    store_of(room).waiting[1](None)
    room.clock.advance(0.2)
    assert "q" not in room.queues


@pytest.mark.parametrize("end", ["not stored", "deleted", "connection lost"])
def test_queue_expires_after_a_declaration_that_was_not_answered(room: QueueRoom, end: str) -> None:
    client = room.client()
    client.say(DECLARE)
    if end == "deleted":
        host = room.broker.virtual_hosts.hosts["/"]
        host.delete_queue("q", None, if_unused=False, if_empty=False)
    elif end == "connection lost":
        client.connection.lost()
    store_of(room).stored(HeadraceError("no disk") if end == "not stored" else None)
    room.clock.advance(0.2)
    assert "q" not in room.queues


def test_queue_does_not_expire_while_a_get_waits_for_its_message(
    room: QueueRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = room.client()
    client.say(DECLARE)
    store_of(room).stored()
    client.heard()
    client.publish(b"a")
    store = room.stores["q"]
    read = store.read
    monkeypatch.setattr(store, "read", lambda position, count: ((), ()))
    assert client.say(BasicGet(queue="q")) == []
    room.clock.advance(5)
    assert "q" in room.queues
    monkeypatch.setattr(store, "read", read)
    room.queues["q"].readable()
    room.broker.pass_done()
    (heard,) = client.heard()
    assert heard.body == b"a"
    assert isinstance(client.ask(BasicGet(queue="q")), BasicGetEmpty)
    room.clock.advance(0.2)
    assert "q" not in room.queues
