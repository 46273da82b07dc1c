"""What the transactions' APIs hand to the coordinators, and the error codes of each version."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.coordination.transactions.producers import TV0, TV2, ProducerEpoch
from headrace.frontends.kafka.connection.handler import RequestContext, load_handler
from headrace.frontends.kafka.connection.registry import APIS
from headrace.frontends.kafka.transactions import transactional
from headrace.model.errors import ApiError, ErrorCode
from headrace.model.nouns import OFFSETS_TOPIC, TopicPartition
from headrace.net.pending import Pending
from headrace.security.identity import Identity
from headrace.wire.kafka import kio_codec
from headrace.wire.kafka.api import ApiKey

WHO = ProducerEpoch(70, 7)
FENCED = ApiError(ErrorCode.PRODUCER_FENCED)
OLD = ErrorCode.INVALID_PRODUCER_EPOCH


class Transactions:
    """A coordinator that keeps what it was asked, and answers what the test says, at once."""

    def __init__(self, outcome: Any = None) -> None:
        self.outcome = outcome
        self.asked: list[Any] = []

    def add(
        self, name: str, who: Any, places: Any, version: int, done: Any, *, waits: bool = True
    ) -> None:
        self.asked.append(("add", name, who, list(places), version))
        assert waits is (version == TV0 or places == [PLACE]), "only brokers ask again"
        done(self.outcome)

    def verify(self, name: str, who: Any, places: Any, done: Any) -> None:
        self.asked.append(("verify", name, who, list(places)))
        done(dict.fromkeys(places, self.outcome) if self.outcome else {})

    def end(self, name: str, who: Any, committed: bool, version: int, done: Any) -> None:
        self.asked.append(("end", name, who, committed, version))
        done(self.outcome)


class Groups:
    """The groups' coordinator: all groups live in partition 3."""

    limits = SimpleNamespace(offset_metadata_max_bytes=4)

    def __init__(self, outcome: ErrorCode = ErrorCode.NONE) -> None:
        self.outcome = outcome
        self.asked: list[Any] = []
        self.elsewhere = False

    def partition_for(self, group: str) -> int:
        assert group == "g"
        return 3

    def shard(self, group: str) -> None:
        assert group == "g"
        if self.elsewhere:
            raise ApiError(ErrorCode.NOT_COORDINATOR)

    def commit_in_transaction(self, request: Any, producer_id: int, epoch: int, done: Any) -> None:
        self.asked.append((request, producer_id, epoch))
        done(self.outcome)


PLACE = TopicPartition(OFFSETS_TOPIC, 3)


def ask(
    key: ApiKey, version: int, coordinator: Transactions, groups: Any = None, /, **fields: Any
) -> Any:
    """The answer, as a client reads it."""
    everybody = SimpleNamespace(allows_all=True, permits=lambda *_: True)
    topic = SimpleNamespace(partitions=[None, None])
    broker: Any = SimpleNamespace(image=SimpleNamespace(topics={"t": topic}), authorizer=everybody)
    coordinators: Any = SimpleNamespace(
        transactions=coordinator, all_transactions=coordinator, groups=groups or Groups()
    )
    nobody: Any = None
    alone: Any = SimpleNamespace(broker_listeners=None)
    context = RequestContext(
        broker,
        coordinators,
        nobody,
        key,
        version,
        "c",
        Identity("127.0.0.1", "PLAINTEXT"),
        shared=alone,
    )
    entity = kio_codec.request_type(key, version)
    known = entity.__dataclass_fields__
    request = entity(**{name: value for name, value in fields.items() if name in known})
    handle: Any = load_handler(next(api for api in APIS if api.key == key))
    answer = handle(context, request)
    if isinstance(answer, Pending):
        assert answer.done
        body: Any = answer.parts()
    else:
        body = kio_codec.encode_body(answer)
    return kio_codec.decode_response(key, version, memoryview(body))


def part(key: ApiKey, version: int, name: str, /, **fields: Any) -> Any:
    """An entity of a request."""
    entity = getattr(kio_codec.entity_module(key, version).request, name)
    known = entity.__dataclass_fields__
    return entity(**{name: value for name, value in fields.items() if name in known})


def end(version: int, outcome: Any, **fields: Any) -> tuple[Any, Transactions]:
    transactions = Transactions(outcome)
    given = {"transactional_id": "x", "producer_id": 70, "producer_epoch": 7, "committed": True}
    return ask(ApiKey.END_TXN, version, transactions, **{**given, **fields}), transactions


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_is_asked_for_with_its_clients_version_and_tells_who_goes_on(
    version: int, committed: bool
) -> None:
    answer, transactions = end(version, ProducerEpoch(70, 8), committed=committed)
    kind = TV2 if version >= 5 else TV0
    assert transactions.asked == [("end", "x", WHO, committed, kind)]
    assert answer.error_code == ErrorCode.NONE
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (70, 8)


@pytest.mark.parametrize("version", range(6))
def test_an_end_of_a_fenced_producer_is_told_in_the_versions_words(version: int) -> None:
    answer, _ = end(version, FENCED)
    assert answer.error_code == (ErrorCode.PRODUCER_FENCED if version >= 2 else OLD)
    if version >= 5:
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_an_end_without_an_id_is_no_request_and_is_asked_of_nobody() -> None:
    answer, transactions = end(5, None, transactional_id="")
    assert transactions.asked == []
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def offsets_to(version: int, outcome: Any, name: str = "x") -> tuple[Any, Transactions]:
    transactions = Transactions(outcome)
    answer = ask(
        ApiKey.ADD_OFFSETS_TO_TXN, version, transactions, transactional_id=name,
        producer_id=70, producer_epoch=7, group_id="g",
    )  # fmt: skip
    return answer, transactions


@pytest.mark.parametrize("version", range(5))
def test_a_groups_offsets_are_added_as_the_partition_they_live_in(version: int) -> None:
    answer, transactions = offsets_to(version, None)
    assert answer.error_code == ErrorCode.NONE
    assert transactions.asked == [("add", "x", WHO, [PLACE], TV0)]
    answer, _ = offsets_to(version, FENCED)
    assert answer.error_code == (ErrorCode.PRODUCER_FENCED if version >= 2 else OLD)
    answer, transactions = offsets_to(version, None, "")
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert transactions.asked == []


ADD = ApiKey.ADD_PARTITIONS_TO_TXN


def several(version: int, outcome: Any, verify_only: bool, *indexes: int) -> Any:
    transactions = Transactions(outcome)
    topic = part(ADD, version, "AddPartitionsToTxnTopic", name="t", partitions=indexes)
    one = part(
        ADD, version, "AddPartitionsToTxnTransaction", transactional_id="x", producer_id=70,
        producer_epoch=7, verify_only=verify_only, topics=(topic,),
    )  # fmt: skip
    answer = ask(ADD, version, transactions, transactions=(one,))
    (result,) = answer.results_by_transaction
    assert (answer.error_code, result.transactional_id) == (ErrorCode.NONE, "x")
    (told,) = result.topic_results
    assert told.name == "t"
    codes = [(one.partition_index, one.partition_error_code) for one in told.results_by_partition]
    return codes, transactions.asked


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_partition_that_is_not_in_is_told_as_one_to_abort_for_where_that_is_known(
    version: int, code: ErrorCode
) -> None:
    places = [TopicPartition("t", 1), TopicPartition("t", 0)]
    codes, asked = several(version, ApiError(ErrorCode.INVALID_TXN_STATE), True, 1, 0)
    assert codes == [(1, code), (0, code)]
    assert asked == [("verify", "x", WHO, places)]
    codes, _ = several(version, FENCED, True, 1)
    assert codes == [(1, ErrorCode.PRODUCER_FENCED)]
    codes, asked = several(version, None, True, 1)
    assert codes == [(1, ErrorCode.NONE)]


@pytest.mark.parametrize("version", [4, 5])
def test_several_are_added_each_for_itself(version: int) -> None:
    codes, asked = several(version, None, False, 0, 1)
    assert codes == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]
    assert asked == [("add", "x", WHO, [TopicPartition("t", 0), TopicPartition("t", 1)], TV2)]


@pytest.mark.parametrize("unknown", [2, -1])
def test_a_partition_that_is_not_there_is_told_and_the_rest_is_not_attempted(unknown: int) -> None:
    codes, asked = several(5, None, False, 0, unknown)
    assert codes == [
        (0, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert asked == []


COMMIT = ApiKey.TXN_OFFSET_COMMIT


def commit(
    version: int, transactions: Transactions, groups: Groups, *parts: tuple[int, str | None],
    **fields: Any,
) -> list[tuple[int, int]]:  # fmt: skip
    partitions = tuple(
        part(
            COMMIT, version, "TxnOffsetCommitRequestPartition", partition_index=index,
            committed_offset=10 + index, committed_leader_epoch=5, committed_metadata=metadata,
        )
        for index, metadata in parts
    )  # fmt: skip
    topic = part(COMMIT, version, "TxnOffsetCommitRequestTopic", name="t", partitions=partitions)
    given = {
        "transactional_id": "x", "group_id": "g", "producer_id": 70, "producer_epoch": 7,
        "generation_id": 2, "member_id": "m", "group_instance_id": "i", "topics": (topic,),
    }  # fmt: skip
    answer = ask(COMMIT, version, transactions, groups, **{**given, **fields})
    (told,) = answer.topics
    assert told.name == "t"
    return [(one.partition_index, one.error_code) for one in told.partitions]


@pytest.mark.parametrize("version", range(6))
def test_offsets_are_taken_in_by_themselves_from_version_5_on_and_looked_up_before(
    version: int,
) -> None:
    transactions, groups = Transactions(), Groups()
    assert commit(version, transactions, groups, (1, "meta"), (0, None)) == [(1, 0), (0, 0)]
    if version >= 5:
        assert transactions.asked == [("add", "x", WHO, [PLACE], TV2)]
    else:
        assert transactions.asked == [("verify", "x", WHO, [PLACE])]
    ((request, *who),) = groups.asked
    assert who == [70, 7]
    epoch = 5 if version >= 2 else -1
    assert [tuple(offset) for offset in request.offsets] == [
        ("t", 1, 11, epoch, "meta"), ("t", 0, 10, epoch, ""),
    ]  # fmt: skip
    member = (2, "m", "i") if version >= 3 else (-1, "", None)
    assert request.group_id == "g"
    assert (request.generation, request.member_id, request.instance_id) == member


@pytest.mark.parametrize("version", [2, 5])
def test_offsets_that_cannot_be_kept_are_told_one_by_one_and_the_rest_is_committed(
    version: int,
) -> None:
    groups = Groups(ErrorCode.ILLEGAL_GENERATION)
    codes = commit(version, Transactions(), groups, (2, ""), (-1, ""), (0, "12345"), (1, "1234"))
    assert codes == [
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (1, ErrorCode.ILLEGAL_GENERATION),
    ]
    transactions, groups = Transactions(), Groups()
    assert commit(version, transactions, groups, (2, "")) == [(2, 3)]
    assert transactions.asked == groups.asked == [], "nobody is asked to keep nothing"


@pytest.mark.parametrize("version", range(6))
def test_offsets_of_a_group_that_another_broker_coordinates_join_no_transaction(
    version: int,
) -> None:
    transactions, groups = Transactions(), Groups()
    groups.elsewhere = True
    assert commit(version, transactions, groups, (0, "")) == [(0, ErrorCode.NOT_COORDINATOR)]
    assert transactions.asked == groups.asked == []


@pytest.mark.parametrize("version", range(6))
def test_a_refusal_of_the_transaction_commits_no_offsets(version: int) -> None:
    groups = Groups()
    error = ApiError(ErrorCode.INVALID_TXN_STATE)
    assert commit(version, Transactions(error), groups, (0, "")) == [(0, error.code)]
    assert groups.asked == []


@pytest.mark.parametrize("version", range(6))
def test_a_coordinator_that_loads_is_not_available_for_versions_that_would_give_up(
    version: int,
) -> None:
    groups = Groups(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    code = groups.outcome if version >= 2 else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert commit(version, Transactions(), groups, (0, "")) == [(0, code)]
    other = Groups(ErrorCode.NOT_COORDINATOR)
    assert commit(version, Transactions(), other, (0, "")) == [(0, other.outcome)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "", "group_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_offsets_of_nobody_are_refused(fields: dict[str, str], code: ErrorCode) -> None:
    transactions = Transactions()
    assert commit(5, transactions, Groups(), (0, ""), **fields) == [(0, code)]
    assert transactions.asked == []


def test_who_has_gone_is_answered_no_more() -> None:
    pending = Pending()
    pending.abandon()
    nobody: Any = None
    transactional.resolve(nobody, pending, error_code=0)
    assert pending.parts() is None


@pytest.mark.parametrize("version", range(4))
def test_the_older_form_adds_one_transactions_partitions_and_tells_each(version: int) -> None:
    for outcome, code in (
        (None, ErrorCode.NONE),
        (FENCED, ErrorCode.PRODUCER_FENCED if version >= 2 else OLD),
    ):
        transactions = Transactions(outcome)
        topic = part(ADD, version, "AddPartitionsToTxnTopic", name="t", partitions=(1, 0))
        answer = ask(
            ADD, version, transactions, v3_and_below_transactional_id="x",
            v3_and_below_producer_id=70, v3_and_below_producer_epoch=7,
            v3_and_below_topics=(topic,),
        )  # fmt: skip
        places = [TopicPartition("t", 1), TopicPartition("t", 0)]
        assert transactions.asked == [("add", "x", WHO, places, TV0)]
        (told,) = answer.results_by_topic_v3_and_below
        codes = [
            (one.partition_index, one.partition_error_code) for one in told.results_by_partition
        ]
        assert (told.name, codes) == ("t", [(1, code), (0, code)])
