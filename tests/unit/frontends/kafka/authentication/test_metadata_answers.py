"""Metadata answers made already: kept while what they say is so, forgotten with what changes."""

from headrace.broker.metadata_image import ImageDelta, TopicInfo
from headrace.frontends.kafka.authentication.authorisation import ALL_OPERATIONS
from headrace.frontends.kafka.metadata.kept_answers import (
    ANSWERS_MAX,
    REQUEST_BYTES_MAX,
    KeptAnswers,
    Question,
)
from headrace.security.authorizer import ResourceType
from headrace.security.identity import ANONYMOUS


def question(text: str) -> Question:
    return (12, "PLAINTEXT", ANONYMOUS, None, 0, text.encode())


def kept() -> KeptAnswers:
    answers = KeptAnswers()
    answers.keep(question("t"), b"t", ["t"])
    answers.keep(question("u"), b"u", ["u"])
    answers.keep(question("both"), b"tu", ["t", "u"])
    answers.keep(question("brokers"), b"", [])
    return answers


def left(answers: KeptAnswers) -> set[str]:
    return {name for name in ("t", "u", "both", "brokers") if answers.get(question(name)) == {
        "t": b"t", "u": b"u", "both": b"tu", "brokers": b""}[name]}  # fmt: skip


def test_a_new_leader_costs_only_the_answers_that_tell_of_its_topic() -> None:
    answers = kept()
    answers.picture_changed(ImageDelta(partitions={"t": ()}), structural=False)
    assert left(answers) == {"u", "brokers"}
    answers.keep(question("t"), b"t", ["t"])
    answers.picture_changed(ImageDelta([TopicInfo("u", b"i" * 16, ())]), structural=False)
    assert left(answers) == {"t", "brokers"}


def test_what_comes_or_goes_costs_all_answers() -> None:
    answers = kept()
    answers.picture_changed(ImageDelta(removed=["other"]), structural=True)
    assert left(answers) == set()


def test_few_answers_are_kept_and_none_for_long_questions() -> None:
    answers = kept()
    answers.keep(question("x" * (REQUEST_BYTES_MAX + 1)), b"", [])
    assert answers.get(question("x" * (REQUEST_BYTES_MAX + 1))) is None
    for number in range(ANSWERS_MAX):
        answers.keep(question(str(number)), b"x", ["t"])
    assert left(answers) == set()
    assert sum(answers.get(question(str(one))) == b"x" for one in range(ANSWERS_MAX)) > 3


def test_a_question_of_1024_bytes_is_kept_and_a_longer_one_is_not() -> None:
    answers = kept()
    for size, expected in ((1024, b"told"), (1025, None)):
        answers.keep(question("x" * size), b"told", ["t"])
        assert answers.get(question("x" * size)) == expected


def test_the_answer_after_the_256th_alone_is_kept() -> None:
    answers = KeptAnswers()
    for number in range(256):
        answers.keep(question(str(number)), b"x", [])
    assert all(answers.get(question(str(number))) for number in range(256))
    answers.keep(question("one more"), b"x", [])
    assert answers.get(question("one more")) == b"x"
    assert not any(answers.get(question(str(number))) for number in range(256))


def test_who_asks_may_do_everything_in_kafkas_bits() -> None:
    # What a Kafka without an authorizer answers.
    assert [ALL_OPERATIONS[kind] for kind in ResourceType if kind in ALL_OPERATIONS] == [
        3576,
        3400,
        8096,
    ]
