"""The small text files beside a log: what a power cut may leave of one is not taken for whole."""

import pytest

from headrace.log import text_files
from headrace.model.errors import CorruptLogError
from headrace.model.nouns import TopicPartition


def test_epochs_cut_anywhere_are_refused() -> None:
    whole = text_files.write_epochs([(1, 7), (2, 11), (10, 120)])
    assert text_files.read_epochs(whole, "x") == [(1, 7), (2, 11), (10, 120)]
    for end in range(len(whole)):
        with pytest.raises(CorruptLogError):
            text_files.read_epochs(whole[:end], "x")


def test_offsets_cut_anywhere_are_refused() -> None:
    offsets = {TopicPartition("a", 0): 120, TopicPartition("b", 11): 12_345}
    whole = text_files.write_offsets(offsets)
    assert text_files.read_offsets(whole, "x") == offsets
    for end in range(len(whole)):
        with pytest.raises(CorruptLogError):
            text_files.read_offsets(whole[:end], "x")


@pytest.mark.parametrize("entries", [[(2, 1), (1, 7)], [(1, 7), (1, 9)], [(1, 7), (2, 7)]])
def test_epochs_that_do_not_grow_are_refused(entries: list[tuple[int, int]]) -> None:
    with pytest.raises(CorruptLogError, match="epoch"):
        text_files.read_epochs(text_files.write_epochs(entries), "x")
