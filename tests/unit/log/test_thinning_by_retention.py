"""Retention lets go, behind what somebody wants, of what is old or too much."""

from dataclasses import replace

from tests.support.log.log import NOW_MS, PLACE, Held, World, append, bases
from tests.support.log.thinning import CONFIG, hold


def aged(*ages_ms: int, retention_ms: int = -1, retention_bytes: int = -1) -> World:
    """A log with a batch of each age in a segment of its own."""
    config = replace(CONFIG, retention_ms=retention_ms, retention_bytes=retention_bytes)
    world = World(config=config)
    log = world.log()
    for age_ms in ages_ms:
        if log.end_offset:
            log.roll()
        append(log, b"x" * 100, timestamp=NOW_MS - age_ms)
    world.flush(log)
    return world


def retained(world: World) -> list[int]:
    world.directory.apply_retention()
    world.settle()
    return bases(world)


def test_behind_what_is_wanted_age_lets_go_what_is_old_and_nothing_behind_what_is_young() -> None:
    ages = (9000, 9000, 9000, 1000, 9000, 0)
    world = aged(*ages, retention_ms=5000)
    hold(world, 0, 2)
    assert retained(world) == [0, 2, 3, 4, 5]
    world.close()


def test_behind_a_wanted_segment_that_is_young_nothing_is_old() -> None:
    world = aged(1000, 9000, 9000, 0, retention_ms=5000)
    hold(world, 0)
    assert retained(world) == [0, 1, 2, 3]
    world.close()


def test_what_size_would_let_go_and_is_wanted_keeps_what_is_behind_it_from_being_old() -> None:
    world = aged(9000, 1000, retention_ms=5000)
    log = world.log()
    log.roll()
    append(log, b"x" * 300, timestamp=NOW_MS - 9000)
    log.roll()
    append(log, b"x" * 100)
    world.flush(log)
    hold(world, 0, 1)
    size = sum(segment.size for segment in log.segments)
    log.config = replace(log.config, retention_bytes=size - log.segments[1].size)
    assert retained(world) == [0, 1, 2, 3]
    world.close()


def test_what_is_just_as_old_as_allowed_stays_between_others_too() -> None:
    for age_ms, left in ((5000, [0, 1, 2]), (5001, [0, 2])):
        world = aged(9000, age_ms, 0, retention_ms=5000)
        hold(world, 0)
        assert retained(world) == left
        world.close()


def test_size_lets_go_as_much_as_is_over_and_what_is_wanted_counts_and_stays() -> None:
    world = aged(*[0] * 6, retention_bytes=10_000)
    log = world.log()
    size = log.segments[0].size
    hold(world, 0, 2)
    for most, left in (
        (6 * size, [0, 1, 2, 3, 4, 5]),
        (5 * size + 1, [0, 1, 2, 3, 4, 5]),
        (5 * size, [0, 2, 3, 4, 5]),
        (3 * size, [0, 2, 5]),
        (0, [0, 2, 5]),
    ):
        log.config = replace(log.config, retention_bytes=most)
        assert retained(world) == left
    world.close()


def test_without_retention_nothing_goes_by_time_and_without_delete_nothing_by_either() -> None:
    world = aged(9000, 9000, 9000)
    hold(world, 0)
    assert retained(world) == [0, 1, 2]
    world.log().config = replace(
        CONFIG, retention_ms=0, retention_bytes=0, cleanup_policy=frozenset({"compact"})
    )
    assert retained(world) == [0, 1, 2]
    world.close()


def test_of_a_log_that_nobody_holds_nothing_goes_from_between() -> None:
    world = aged(1000, 9000, 9000, 0, retention_ms=5000)
    other = Held()
    world.directory.holds.add(PLACE, other)
    assert retained(world) == [0, 1, 2, 3]
    world.directory.holds.remove(PLACE, other)
    assert retained(world) == [0, 1, 2, 3]
    world.close()
