"""How `make compat` judges what two runs of a tool printed."""

from tests.outside.kafka_tools import masks, stays
from tests.outside.kafka_tools.__main__ import Verdicts, judge
from tests.outside.kafka_tools.step import Printed, Step


def _said(*lines: str, status: int = 0) -> Printed:
    return Printed(status, list(lines), "")


def _verdict(step: Step, ours: Printed, theirs: Printed) -> list[str]:
    verdicts = Verdicts()
    judge(step, [ours, theirs], verdicts)
    return list(verdicts.counts)


def test_a_refusals_words_may_differ_and_its_class_may_not() -> None:
    ours = "org.apache.kafka.common.errors.InvalidTopicException: bad"
    step = Step("refused")
    assert _verdict(step, _said(ours), _said(ours.replace("bad", "worse"))) == ["but for"]
    other = ours.replace("InvalidTopic", "InvalidRequest")
    assert _verdict(step, _said(ours), _said(other)) == ["DIFFERS"]
    assert _verdict(step, _said(ours), _said(ours, status=1)) == ["DIFFERS"]


def test_what_stays_is_taken_away_only_where_outputs_differ() -> None:
    line = "synonyms={A:a=1, DEFAULT_CONFIG:log.local.retention.ms=-2}"
    assert stays.left([line], [line]) == []
    reasons = stays.left(["synonyms={A:a=1, }"], [line])
    assert reasons is not None
    assert len(reasons) == 1
    assert stays.left(["synonyms={A:a=2, }"], [line]) is None


def test_a_difference_said_to_be_known_must_be_there() -> None:
    step = Step("known", known="a reason")
    assert _verdict(step, _said("a"), _said("b")) == ["known"]
    assert _verdict(step, _said("a"), _said("a")) == ["DIFFERS"]


def test_what_must_be_printed_must_be_printed_even_where_a_difference_is_known() -> None:
    step = Step("known", known="a reason", expected=("text",))
    assert _verdict(step, _said("a"), _said("text")) == ["DIFFERS"]
    assert _verdict(step, _said("text"), _said("b")) == ["known"]


def test_a_tables_ids_are_hidden_and_nothing_else() -> None:
    hidden = masks.columns("ProducerId")(["Id ProducerId Epoch", "a 17 3", "b 18 3"])
    assert hidden == ["Id ProducerId Epoch", "a PRODUCERID 3", "b PRODUCERID 3"]


def test_ids_times_and_addresses_are_hidden() -> None:
    text = "[2026-01-02 03:04:05,678] 1763769600000 127.0.0.1:9092 AbCdEfGhIjKlMnOpQrStUv 12"
    assert masks.lines(text, ()) == ["TIME BROKER ID 12"]
