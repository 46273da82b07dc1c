"""share.auto.offset.reset and the durations in it, as Java reads them."""

import pytest

from headrace.config.durations import check_offset_reset, duration_ms
from headrace.config.keys.entities import GROUP
from headrace.config.value_types import LONG_MAX


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT0S", 0),
        ("+PT1H", 3_600_000),
        ("PT+1H", 3_600_000),
        ("-PT-1H", 3_600_000),
        ("PT2H-30M", 5_400_000),
        ("PT1.S", 1000),
        ("PT1,25S", 1250),
        ("PT1M-0.5S", 59_500),
        ("P1DT-24H", 0),
        (f"PT{LONG_MAX // 1000}S", LONG_MAX // 1000 * 1000),
    ],
)
def test_signs_and_fractions_are_read_as_java_reads_them(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("-PT1H", "negative"),
        ("PT-1H", "negative"),
        ("PT-0.5S", "negative"),
        (f"PT{LONG_MAX // 1000 + 1}S", "too long"),
        ("PT99999999999999999999H", "too long"),
        ("P1W", "no duration"),
        ("P1M", "no duration"),
        (" PT1H", "no duration"),
        ("PT١H", "no duration"),
    ],
)
def test_durations_that_java_refuses_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        duration_ms(text)


@pytest.mark.parametrize("text", ["earliest", "latest", "by_duration:PT1H", " latest "])
def test_a_share_groups_start_is_a_word_or_a_duration(text: str) -> None:
    assert GROUP["share.auto.offset.reset"].parse(text) == text.strip()


@pytest.mark.parametrize("text", ["", "EARLIEST", "nonsense", "by_duration:", "by_duration:1h"])
def test_another_start_of_a_share_group_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be latest|no duration"):
        check_offset_reset(text)
