"""Which leader epoch began where: what contradicts, what is cut, what lies where."""

from headrace.log.leader_epochs import LeaderEpochs
from headrace.model.nouns import LeaderEpoch, Offset


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries])


def test_an_epoch_takes_the_place_of_one_that_begins_where_it_does_or_later() -> None:
    found = epochs((1, 0), (2, 5), (3, 7))
    assert found.assign(LeaderEpoch(4), Offset(5))
    assert found.entries == [(1, 0), (4, 5)]


def test_an_epoch_takes_the_place_of_higher_ones_that_began_before() -> None:
    found = epochs((1, 0), (5, 3), (6, 4))
    assert found.assign(LeaderEpoch(5), Offset(9))
    assert found.entries == [(1, 0), (5, 9)]


def test_an_epoch_that_is_the_latest_or_none_is_no_news() -> None:
    found = epochs((1, 0), (2, 5))
    assert not found.assign(LeaderEpoch(2), Offset(9))
    assert not found.assign(LeaderEpoch(-1), Offset(9))
    assert found.entries == [(1, 0), (2, 5)]


def test_an_offset_is_of_the_epoch_that_began_there_or_last_before() -> None:
    found = epochs((1, 2), (4, 5))
    assert [found.epoch_of(Offset(at)) for at in range(7)] == [-1, -1, 1, 1, 1, 4, 4]


def test_an_end_that_is_cut_takes_the_epochs_that_begin_there_or_later() -> None:
    for end, kept in ((6, 2), (5, 1), (1, 1), (0, 0)):
        found = epochs((1, 0), (4, 5))
        assert found.truncate_from_end(Offset(end)) is (kept < 2)
        assert len(found.entries) == kept


def test_a_start_that_moves_is_where_the_epoch_it_lies_in_begins() -> None:
    for start, wanted in (
        (0, [(1, 0), (2, 3), (4, 5)]),
        (1, [(1, 1), (2, 3), (4, 5)]),
        (3, [(2, 3), (4, 5)]),
        (4, [(2, 4), (4, 5)]),
        (9, [(4, 9)]),
    ):
        found = epochs((1, 0), (2, 3), (4, 5))
        assert found.truncate_from_start(Offset(start)) is (start > 0)
        assert found.entries == wanted
