"""How many connections there may be, of which address and listener, and how many strangers."""

import pytest

from headrace.config.connection_limits import ConnectionLimits
from headrace.config.value_types import INT_MAX
from headrace.net.connection_places import Place, Places
from headrace.security.identity import LOCAL_LISTENER
from tests.support.coordination.groups_kit import HandClock
from tests.support.net.connections import Client, Room
from tests.support.net.net import framed, limits_with

SASL = frozenset({"SASL"})


class Holder:
    """Notes why it had to go."""

    def __init__(self, last_moved: float = 0.0) -> None:
        self.last_moved = last_moved
        self.because = ""

    def abort(self, because: str) -> None:
        """Note it."""
        self.because = because


class Scene:
    """Places on a clock that the test moves."""

    def __init__(self, single: ConnectionLimits | None = None, **settings: int) -> None:
        self.clock = HandClock()
        self.limits = limits_with(single or ConnectionLimits(begin_unknown=SASL), **settings)
        self.places = Places(self.clock, lambda: self.limits)

    def take(self, address: str = "10.0.0.1", listener: str = "SASL") -> tuple[Place, Holder]:
        """Take a place that there is."""
        holder = Holder(self.clock.now)
        place = self.places.take(holder, address, listener)
        assert isinstance(place, Place), place
        return place, holder

    def refusal(self, address: str = "10.0.0.1", listener: str = "SASL") -> str:
        """Return why there is no place."""
        because = self.places.take(Holder(), address, listener)
        assert isinstance(because, str)
        return because


def gone(*taken: tuple[Place, Holder]) -> list[bool]:
    """Tell which of them had to go."""
    return [bool(holder.because) for _, holder in taken]


def test_an_addresss_oldest_stranger_makes_room_and_who_is_known_never_does() -> None:
    scene = Scene(max_connections_unauthenticated_per_ip=2)
    taken = [scene.take() for _ in range(2)]
    taken[0][0].known()
    taken += [scene.take() for _ in range(2)]
    assert gone(*taken) == [False, True, False, False]
    assert "the oldest of 2 unauthenticated from its address" in taken[1][1].because
    assert (scene.places.strangers, len(scene.places)) == (2, 3)


def test_the_known_of_an_address_have_no_bound_but_max_connections_per_ip() -> None:
    scene = Scene(max_connections_unauthenticated_per_ip=1)
    for _ in range(300):
        scene.take()[0].known()
    assert (scene.places.strangers, len(scene.places)) == (0, 300)


def test_a_listener_that_asks_nobody_who_he_is_has_no_strangers() -> None:
    scene = Scene(max_connections_unauthenticated_per_ip=1, max_connections=20)
    taken = [scene.take(listener="PLAINTEXT") for _ in range(20)]
    assert not any(gone(*taken))
    assert scene.places.strangers == 0


def test_where_a_tenth_are_strangers_the_address_with_most_of_them_makes_room() -> None:
    scene = Scene(max_connections=200)
    one = scene.take("10.0.0.9")
    crowd = [scene.take("10.0.0.1") for _ in range(19)]
    assert not any(gone(one, *crowd))
    scene.take("10.0.0.2")
    assert gone(one, *crowd) == [False, True, *[False] * 18]
    assert scene.places.strangers == 20


def test_sixteen_may_authenticate_at_a_time_however_few_connections_there_may_be() -> None:
    scene = Scene(max_connections=17)
    taken = [scene.take() for _ in range(16)]
    assert not any(gone(*taken))
    scene.take()
    assert gone(*taken) == [True, *[False] * 15]


def test_who_failed_keeps_his_place_among_strangers_until_the_delay_is_over() -> None:
    scene = Scene(max_connections_unauthenticated_per_ip=2)
    for _ in range(2):
        place, _ = scene.take()
        place.failed(5.0)
        place.leave()
    assert (scene.places.strangers, len(scene.places)) == (0, 0)
    assert "2 connections from this address failed" in scene.refusal()
    scene.take("10.0.0.2")
    scene.clock.advance(4.9)
    scene.refusal()
    scene.clock.advance(0.1)
    scene.take()


def test_second_failure_never_shortens_the_delay_after_the_first() -> None:
    scene = Scene(max_connections_unauthenticated_per_ip=1)
    place, _ = scene.take()
    place.failed(5.0)
    place.failed(1.0)
    place.leave()
    scene.clock.advance(4.9)
    scene.refusal()
    scene.clock.advance(0.1)
    scene.take()


def test_who_failed_and_waits_for_the_answer_makes_no_room_for_his_next_attempt() -> None:
    scene = Scene(max_connections_unauthenticated_per_ip=1)
    failed = scene.take()
    failed[0].failed(5.0)
    scene.refusal()
    assert not failed[1].because
    scene.clock.advance(5)
    failed[0].leave()
    scene.take()


def test_places_kept_of_the_failed_are_as_many_as_connections_at_most() -> None:
    scene = Scene(max_connections=3, max_connections_unauthenticated_per_ip=INT_MAX)
    for _ in range(10):
        place, _ = scene.take()
        place.failed(5.0)
        place.leave()
    assert scene.clock.timers == 3
    scene.clock.advance(5)
    assert not scene.places._kept
    assert scene.places._kept_in_all == 0


def test_a_place_is_freed_once_however_often_it_is_left() -> None:
    scene = Scene(max_connections=2)
    place, _ = scene.take()
    scene.take()
    place.leave()
    place.leave()
    place.known()
    scene.take()
    assert "2 connections are open, the limit of max.connections" in scene.refusal()
    assert scene.places.strangers == 2


def test_an_address_may_have_a_bound_of_its_own() -> None:
    single = ConnectionLimits(of_addresses={"10.0.0.1": 2, "::1": 0})
    scene = Scene(single, max_connections_per_ip=1)
    for _ in range(2):
        scene.take("10.0.0.1")
    said = "2 connections from this address are open, the limit of max.connections.per.ip.overrides"
    assert scene.refusal("10.0.0.1") == said
    scene.take("10.0.0.2")
    said = "1 connections from this address are open, the limit of max.connections.per.ip"
    assert scene.refusal("10.0.0.2") == said
    assert "0 connections from" in scene.refusal("::1")


def test_a_listener_may_have_a_bound_of_its_own() -> None:
    scene = Scene(ConnectionLimits(of_listeners={"A": 1}))
    place, _ = scene.take(listener="A")
    assert scene.refusal(listener="A") == (
        "1 connections are open, the limit of listener.name.a.max.connections"
    )
    scene.take(listener="B")
    place.leave()
    scene.take(listener="A")


def test_a_broker_finds_a_place_where_clients_have_taken_all_and_the_most_silent_goes() -> None:
    scene = Scene(ConnectionLimits(for_brokers=frozenset({"AMONG"})), max_connections=3)
    among = scene.take(listener="AMONG")
    scene.clock.advance(1)
    clients = [scene.take(listener="B") for _ in range(2)]
    clients[0][1].last_moved += 10
    assert "limit of max.connections" in scene.refusal(listener="B")
    scene.take(listener="AMONG")
    assert gone(among, *clients) == [False, False, True]
    assert len(scene.places) == 3
    for _ in range(3):
        scene.take(listener="AMONG")
    assert gone(among, *clients) == [False, True, True]


def test_a_local_administrator_finds_a_place_where_clients_have_taken_all() -> None:
    scene = Scene(max_connections=2)
    clients = [scene.take(listener="B") for _ in range(2)]
    clients[0][1].last_moved += 10
    scene.take("local", listener=LOCAL_LISTENER)
    assert gone(*clients) == [False, True]
    assert "limit of max.connections" in scene.refusal(listener="B")


def test_a_connection_that_authenticates_is_no_stranger_any_more() -> None:
    room = Room(
        (), (), ConnectionLimits(begin_unknown=SASL), max_connections_unauthenticated_per_ip=1
    )
    first = room.client(listener="SASL")
    assert room.table.places.strangers == 1
    first.connection.known()
    second = room.client(listener="SASL")
    assert (first.transport.ended, second.transport.ended) == ("", "")
    room.client(listener="SASL")
    assert (first.transport.ended, second.transport.ended) == ("", "aborted")


def test_who_failed_is_not_ended_for_being_late_while_he_waits_for_the_answer() -> None:
    room = Room((), (), ConnectionLimits(begin_unknown=SASL), connection_authentication_ms=1000)
    clients = [room.client(listener="SASL") for _ in range(2)]
    for client in clients:
        client.sends(framed(b"a"))
    clients[0].connection.failed(5.0)
    room.clock.advance(4)
    assert [client.transport.ended for client in clients] == ["", "aborted"]


def waits(client: Client) -> bool:
    """Tell whether it has not been let in."""
    return not client.transport.reads


def test_a_listener_that_is_too_fast_holds_up_no_other_one() -> None:
    room = Room(delays=(5.0, 0.0))
    slow = [room.client(listener="A") for _ in range(2)]
    other = room.client(listener="B")
    assert [waits(client) for client in (*slow, other)] == [True, True, False]
    room.clock.advance(5)
    assert not any(waits(client) for client in slow)


@pytest.mark.parametrize("ends", ["leaves", "is ended"])
def test_a_connection_frees_its_place(ends: str) -> None:
    room = Room((), (), ConnectionLimits(begin_unknown=SASL), max_connections=16)
    clients = [room.client(listener="SASL") for _ in range(16)]
    if ends == "leaves":
        clients[3].leaves()
    assert room.client(listener="SASL").transport.ended == ("" if ends == "leaves" else "aborted")
