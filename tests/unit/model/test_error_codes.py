"""Error codes are Kafka's, by name and number; an error's text begins with the name."""

import pytest
from kio.schema.errors import ErrorCode as KafkasCode

from headrace.model.errors import ApiError, ErrorCode
from headrace.model.invariant import InvariantError, invariant
from headrace.model.nouns import NO_EPOCH, NO_PRODUCER_ID, TopicPartition, topic_name_problem


def test_every_code_has_kafkas_name_and_number_and_is_told_by_its_name() -> None:
    ours = {name: int(code) for name, code in ErrorCode.__members__.items()}
    kafkas = {code.name.upper(): code.value for code in KafkasCode}
    assert ours == kafkas
    for name, code in ErrorCode.__members__.items():
        assert str(ApiError(code)) == name
        assert str(ApiError(code, "why")) == f"{name}: why"
        assert (ApiError(code).code, ApiError(code).message) == (code, None)


def test_a_broken_invariant_says_what_should_hold() -> None:
    invariant(True, "never said")
    with pytest.raises(InvariantError, match="one is not two"):
        invariant(False, "one is not two")


def test_a_partition_is_written_as_its_directory_is_called() -> None:
    assert str(TopicPartition("a-b", 7)) == "a-b-7"
    assert (NO_EPOCH, NO_PRODUCER_ID) == (-1, -1)


@pytest.mark.parametrize("name", ["a", ".a", "...", "A-Z_0.9", "n" * 249])
def test_a_topic_may_be_called_so(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' and '..' are not allowed"),
        ("..", "'.' and '..' are not allowed"),
        ("n" * 250, "longer than 249 characters"),
        ("a b", "contains characters other than ASCII letters, digits, '.', '_' and '-'"),
        ("ä", "contains characters other than ASCII letters, digits, '.', '_' and '-'"),
    ],
)
def test_a_topic_may_not_be_called_so_and_why(name: str, problem: str) -> None:
    assert topic_name_problem(name) == problem
