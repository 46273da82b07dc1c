"""Texts of `headrace pipeline quarantine` where no record is shown or sent."""

from collections.abc import Iterator

import pytest

pytest.importorskip("pyspark")

from headrace.testing import BrokerThread
from tests.support.processes.cli_kit import Says


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread() as started:
        started.create_topics("orders", "orders.quarantine", "sound")
        yield started


def test_a_topic_without_refused_records_is_told_from_one_that_is_missing(says: Says) -> None:
    code, _, error = says("pipeline", "quarantine", "list", "sound")
    assert (code, "sound.quarantine: no record of it was refused" in error) == (4, True)
    code, _, error = says("pipeline", "quarantine", "list", "sounds")
    assert (code, "sounds.quarantine: there is no such topic" in error) == (4, True)


@pytest.mark.parametrize("words", [("replay",), ("drop", "--yes")])
def test_a_choice_that_matches_no_waiting_record_is_said(
    says: Says, words: tuple[str, ...]
) -> None:
    verb, *yes = words
    chosen = ("pipeline", "quarantine", verb, "orders", *yes)
    for given, named in (
        (("--reason", "totl"), "matches --reason;"),
        (("--flow", "x", "--reason", "totl"), "matches --flow and --reason;"),
    ):
        code, _, noted = says(*chosen, *given)
        assert (code, named in noted) == (0, True)
    code, _, noted = says(*chosen)
    assert (code, "no refused records of orders wait" in noted) == (0, True)
