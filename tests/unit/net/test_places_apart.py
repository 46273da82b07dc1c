"""Listeners with places of their own: metrics are scraped while all others are taken."""

from headrace.config.connection_limits import ConnectionLimits
from headrace.config.listeners import METRICS_LISTENER
from headrace.net.connection_places import Place
from headrace.net.limits import HTTP_CONNECTIONS_MAX
from tests.unit.net.test_places import Scene, gone

FULL = f"{HTTP_CONNECTIONS_MAX} connections are open, the limit of {METRICS_LISTENER}"


def watchers(scene: Scene) -> list[Place]:
    """Take all places that are apart, one second after the other."""
    taken = []
    for _ in range(HTTP_CONNECTIONS_MAX):
        taken.append(scene.take(listener=METRICS_LISTENER)[0])
        scene.clock.now += 1
    return taken


def test_places_apart_are_free_while_all_others_are_taken() -> None:
    scene = Scene(max_connections=2, max_connections_per_ip=2)
    for _ in range(2):
        scene.take(listener="PLAINTEXT")
    assert "max.connections" in scene.refusal(listener="PLAINTEXT")
    taken = watchers(scene)
    assert len(scene.places) == 2
    assert scene.refusal(listener=METRICS_LISTENER) == FULL
    for place in taken:
        place.leave()
        place.leave()
    assert len(scene.places) == 2
    assert len(watchers(scene)) == HTTP_CONNECTIONS_MAX


def test_places_apart_take_none_of_the_others() -> None:
    scene = Scene(max_connections=2, max_connections_per_ip=2)
    watchers(scene)
    for _ in range(2):
        scene.take(listener="PLAINTEXT")
    assert len(scene.places) == 2


def test_broker_that_needs_a_place_closes_none_apart() -> None:
    scene = Scene(ConnectionLimits(for_brokers=frozenset({"AMONG"})), max_connections=1)
    scraper = scene.take(listener=METRICS_LISTENER)
    scene.clock.advance(1)
    client = scene.take(listener="PLAINTEXT")
    scene.take(listener="AMONG")
    assert gone(scraper, client) == [False, True]


def test_the_connection_idle_longest_between_requests_makes_room() -> None:
    scene = Scene()
    taken = watchers(scene)
    assert scene.refusal(listener=METRICS_LISTENER) == FULL, "they have a request to come"
    for at in (5, 3, 9):
        taken[at].yields = True
    place, _ = scene.take(listener=METRICS_LISTENER)
    assert [bool(getattr(one.holder, "because", "")) for one in taken].index(True) == 3
    place.leave()
