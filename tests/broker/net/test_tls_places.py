"""TLS handshakes under way: they have places among all connections, and wait for their turn."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.security.certificates import Authority
from tests.support.security.tls_kit import Client, Scene


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs this file's certificates."""
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Path:
    """The server's key and certificate."""
    return authority.sign().both


@pytest.fixture
def make(authority: Authority, server: Path) -> Callable[..., Scene]:
    """Make a listener, with settings if the test wants others."""
    return partial(Scene, authority, server)


def reads(client: Client) -> bool:
    """Whether more may come."""
    return client.transport.reads


def test_a_handshake_under_way_is_a_connection_among_all(make: Callable[..., Scene]) -> None:
    scene = make(max_connections=1)
    first = scene.connect()
    assert scene.connect().transport.ended == "aborted"
    assert (len(scene.table.places), scene.table.refused) == (1, 1)
    first.below.connection_lost(None)
    assert len(scene.table.places) == 0
    assert scene.connect().transport.ended == ""


def test_the_connection_above_is_told_of_the_place_of_its_handshake(
    make: Callable[..., Scene],
) -> None:
    scene = make()
    client = scene.connect()
    place = client.below.place
    assert place is not None
    assert place.stranger
    assert client.shake_hands().transport.get_extra_info("place") is place


def test_where_connections_come_too_fast_a_handshake_waits_unread_for_its_turn(
    make: Callable[..., Scene],
) -> None:
    scene = make()
    scene.table._delay = lambda listener: 0.0 if scene.clock.now >= 1005 else 5.0
    client = scene.connect()
    assert not client.transport.reads
    assert (len(scene.handshakes), len(scene.table.places)) == (0, 0)
    client.transport.reads = True  # as uvloop has it when `connection_made` has returned
    scene.clock.advance(4.9)
    assert not reads(client)
    scene.clock.advance(0.1)
    assert reads(client)
    client.shake_hands()
    assert not client.transport.ended


def test_one_that_leaves_while_it_waits_is_not_let_in(make: Callable[..., Scene]) -> None:
    scene = make()
    scene.table._delay = lambda listener: 0.0 if scene.clock.now >= 1005 else 5.0
    scene.connect().below.connection_lost(None)
    scene.clock.advance(5)
    assert (len(scene.handshakes), len(scene.table.places)) == (0, 0)


def test_an_address_that_connects_too_often_is_left_unread_and_ended(
    make: Callable[..., Scene],
) -> None:
    scene = make()
    scene.table._too_many = lambda address: 3.0
    client = scene.connect()
    scene.clock.advance(2.9)
    assert (client.transport.reads, client.transport.ended) == (False, "")
    scene.clock.advance(0.1)
    assert client.transport.ended == "closed"


def test_a_stopping_broker_ends_handshakes_and_begins_no_others(
    make: Callable[..., Scene],
) -> None:
    scene = make()
    client = scene.connect()
    scene.table.close()
    scene.handshakes.close()
    assert client.transport.ended
    assert scene.connect().transport.ended == "aborted"


def test_how_long_a_handshake_may_take_is_a_setting(make: Callable[..., Scene]) -> None:
    scene = make(connection_handshake_ms=2000)
    client = scene.connect()
    scene.clock.advance(1.9)
    assert not client.transport.ended
    scene.clock.advance(0.1)
    assert client.transport.ended
