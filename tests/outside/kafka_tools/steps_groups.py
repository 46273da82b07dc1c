"""Groups of every kind and transactions as Kafka's tools show and change them."""

from confluent_kafka import Producer

from headrace.wire.kafka.api import ApiKey
from tests.outside.kafka_tools import masks
from tests.outside.kafka_tools.masks import Mask
from tests.outside.kafka_tools.step import (
    CONFIGS,
    CONSUMER,
    GROUPS,
    SHARE,
    SHARE_CONSUMER,
    TOOLS,
    TOPICS,
    TRANSACTIONS,
    Side,
    Step,
)


def _groups(name: str, words: str, *mask: Mask, **more: object) -> Step:
    return Step(f"consumer-groups {name}", GROUPS, words, mask=mask, **more)  # type: ignore[arg-type]


def groups() -> list[Step]:
    """Groups without members; the console section left them."""
    return [
        _groups("list", "--list", masks.in_any_order, expected=("g1", "g2")),
        _groups("list with states", "--list --state", masks.in_any_order),
        _groups("describe", "--describe --group g1", expected=("one",)),
        _groups("list of one state", "--list --state Empty", masks.in_any_order),
        _groups("list of a state that is none", "--list --state Nowhere", masks.words_in_any_order),
        _groups("list with types", "--list --type", masks.in_any_order),
        _groups("list of one type", "--list --type classic", masks.in_any_order),
        _groups("describe verbosely", "--describe --group g1 --verbose"),
        _groups("describe states of all", "--describe --all-groups --state", masks.in_any_order),
        _groups("describe state", "--describe --group g1 --state"),
        _groups("describe members", "--describe --group g1 --members"),
        _groups("describe all", "--describe --all-groups", masks.in_any_order),
        _groups("describe what is not there", "--describe --group nope"),
        _groups("reset, dry", "--reset-offsets --group g1 --topic one --to-earliest --dry-run"),
        _groups("reset to an offset",
                "--reset-offsets --group g1 --topic one:0 --to-offset 7 --execute"),
        _groups("reset by a shift",
                "--reset-offsets --group g1 --topic one --shift-by 3 --execute --export"),
        _groups("reset to a time",
                "--reset-offsets --group g1 --topic one --to-datetime 2020-01-01T00:00:00.000"
                " --execute"),
        _groups("reset by a duration",
                "--reset-offsets --group g1 --topic one --by-duration P1D --dry-run"),
        _groups("reset to where it is",
                "--reset-offsets --group g1 --all-topics --to-current --dry-run"),
        _groups("reset by a file",
                "--reset-offsets --group g1 --from-file {place}/reset.csv --dry-run",
                prepare=_write_reset),
        _groups("reset past the end",
                "--reset-offsets --group g1 --topic one --to-offset 5000 --dry-run"),
        _groups("reset in a topic that is not there",
                "--reset-offsets --group g1 --topic nope --to-earliest --execute"),
        _groups("reset of a new group",
                "--reset-offsets --group fresh --topic one --to-latest --execute"),
        _groups("describe after", "--describe --group g1"),
        _groups("delete offsets", "--delete-offsets --group g1 --topic one"),
        _groups("delete offsets of a topic that is not there",
                "--delete-offsets --group g1 --topic nope"),
        _groups("delete offsets of a group that is not there",
                "--delete-offsets --group nope --topic one"),
        _groups("describe without offsets", "--describe --group g1"),
        _groups("delete", "--delete --group g2"),
        _groups("delete what is not there", "--delete --group nope"),
        _groups("list after", "--list", masks.in_any_order),
        Step("groups list", f"{TOOLS}.GroupsCommand", "--list", mask=(masks.in_any_order,)),
        Step("groups list consumers", f"{TOOLS}.GroupsCommand", "--list --consumer",
             mask=(masks.in_any_order,)),
    ]  # fmt: skip


def _write_reset(side: Side) -> None:
    (side.place / "reset.csv").write_text("one,0,11\n")


def _member(protocol: str) -> Step:
    def begin(side: Side) -> None:
        words = (
            f"--topic one --from-beginning --group {protocol}-1"
            f" --command-property group.protocol={protocol}"
        )
        side.behind("member", CONSUMER, words, until="zstd 19")

    return Step(f"a member of a group of protocol {protocol}", prepare=begin)


def members() -> list[Step]:
    """Groups with a member, of both protocols: what they show and what they refuse."""
    found = []
    for protocol in ("classic", "consumer"):
        group = f"--group {protocol}-1"
        found += [
            _member(protocol),
            _groups(f"list, {protocol}", "--list --state --type", masks.in_any_order),
            _groups(f"state, {protocol}", f"--describe {group} --state", expected=("Stable",)),
            _groups(f"members, {protocol}", f"--describe {group} --members",
                    expected=("console-consumer",)),
            _groups(f"members verbosely, {protocol}", f"--describe {group} --members --verbose",
                    expected=("one:0",)),
            _groups(f"reset refused, {protocol}",
                    f"--reset-offsets {group} --topic one --to-earliest --execute"),
            _groups(f"delete refused, {protocol}", f"--delete {group}"),
            _groups(f"delete offsets refused, {protocol}",
                    f"--delete-offsets {group} --topic one"),
            Step(f"the member leaves, {protocol}", prepare=lambda side: side.end("member")),
            _groups(f"state afterwards, {protocol}", f"--describe {group} --state",
                    expected=("Empty",)),
            _groups(f"offsets afterwards, {protocol}", f"--describe {group}", expected=("100",)),
            _groups(f"delete, {protocol}", f"--delete {group}"),
        ]  # fmt: skip
    return found


_SILENT = 0
"""librdkafka says on standard error when a broker goes away, which is what is done to it here."""
_LEFT: list[Producer] = []
"""A producer that is closed aborts; these are not closed while the tools run."""


_COUNTED = ("ProducerEpoch", "LastSequence", "LatestCoordinatorEpoch")
"""How many transactions there were in the time."""


def _open(side: Side) -> None:
    """Begin a transaction and leave it."""
    producer = Producer(
        {
            "bootstrap.servers": side.broker.bootstrap,
            "transactional.id": "open",
            "log_level": _SILENT,
        }
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("hang", b"value", partition=0)
    producer.flush(30)
    _LEFT.append(producer)


def transactions() -> list[Step]:
    """Finished transactions and producers."""
    needs = (ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.DESCRIBE_PRODUCERS)

    def transactions(name: str, words: str, *hidden: str) -> Step:
        mask = (masks.columns("ProducerId", *hidden), masks.in_any_order)
        return Step(f"transactions {name}", TRANSACTIONS, words, needs=needs, mask=mask)

    return [
        Step("topics create tx", TOPICS, "--create --topic tx --partitions 1", needs=needs),
        Step("producer-perf in transactions", f"{TOOLS}.ProducerPerformance",
             "--topic tx --num-records 200 --record-size 50 --throughput 1000"
             " --transactional-id t1 --transaction-duration-ms 50",
             mask=(masks.measured,), needs=needs),
        transactions("list", "list"),
        transactions("describe", "describe --transactional-id t1",
                     *_COUNTED),
        transactions("describe what is not there", "describe --transactional-id nope"),
        transactions("producers", "describe-producers --topic tx --partition 0",
                     *_COUNTED),
        transactions("producers of what is not there",
                     "describe-producers --topic nope --partition 0"),
        transactions("list of long ones", "list --duration-filter 600000"),
        transactions("list by an expression", "list --transactional-id-pattern t.*"),
        transactions("hanging", "find-hanging --broker-id 1"),
        transactions("hanging in a topic", "find-hanging --topic tx"),
        transactions("abort where nothing is open",
                     "abort --topic tx --partition 0 --start-offset 0"),
        Step("topics create hang", TOPICS, "--create --topic hang --partitions 1", needs=needs),
        Step("a transaction is open", prepare=_open),
        transactions("list with an open one", "list"),
        transactions("describe the open one", "describe --transactional-id open",
                     "TransactionDurationMs"),
        transactions("producers of the open one", "describe-producers --topic hang --partition 0"),
        Step("console-consumer sees nothing of it", CONSUMER,
             "--topic hang --from-beginning --timeout-ms 5000 --isolation-level read_committed",
             needs=needs, mask=(masks.values_only("org.apache", "ERROR", "[main] ERROR"),)),
        transactions("abort the open one", "abort --topic hang --partition 0 --start-offset 0"),
        transactions("producers after that", "describe-producers --topic hang --partition 0"),
        transactions("force its end", "forceTerminateTransaction --transactionalId open"),
        transactions("force the end of what is not there",
                     "forceTerminateTransaction --transactionalId nope"),
        transactions("list after that", "list"),
        Step("console-consumer, committed only", CONSUMER,
             "--topic tx --from-beginning --max-messages 200 --timeout-ms 20000"
             " --isolation-level read_committed", needs=needs,
             mask=(lambda found: found[-1:],),
             expected=("Processed a total of 200 messages",)),
    ]  # fmt: skip


def _share_member(side: Side) -> None:
    side.behind("sharer", SHARE_CONSUMER, "--topic one --group s1", until="zstd 19")


def share() -> list[Step]:
    """Share groups, with members and without."""
    needs = (ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_FETCH, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)

    def share(name: str, words: str, *mask: Mask, **more: object) -> Step:
        return Step(f"share-groups {name}", SHARE, words, mask=mask, needs=needs, **more)  # type: ignore[arg-type]

    return [
        Step("configs share group: earliest", CONFIGS,
             "--alter --entity-type groups --entity-name s1 --add-config"
             " share.auto.offset.reset=earliest", needs=needs),
        Step("console-share-consumer", SHARE_CONSUMER,
             "--topic one --group s1 --max-messages 20 --timeout-ms 30000", needs=needs),
        share("list", "--list", masks.in_any_order),
        share("list with states", "--list --state", masks.in_any_order),
        share("describe what is not there", "--describe --group nope"),
        share("describe all", "--describe --all-groups", masks.in_any_order),
        share("describe verbosely", "--describe --group s1 --verbose"),
        share("describe", "--describe --group s1"),
        share("describe state", "--describe --group s1 --state"),
        share("describe members", "--describe --group s1 --members"),
        share("reset, dry", "--reset-offsets --group s1 --topic one --to-earliest --dry-run"),
        share("reset", "--reset-offsets --group s1 --topic one --to-latest --execute"),
        share("delete offsets", "--delete-offsets --group s1 --topic one"),
        share("describe without offsets", "--describe --group s1"),
        Step("a member of the share group", prepare=_share_member),
        share("state with a member", "--describe --group s1 --state", expected=("Stable",)),
        # Kafka 4.3 has the group's epoch grow once more when it has made the share state, before
        # or after this step looks; here it is made before the first member.
        share("members", "--describe --group s1 --members --verbose",
              masks.columns("MEMBER-EPOCH"), expected=("one:0",)),
        share("reset refused", "--reset-offsets --group s1 --topic one --to-latest --execute"),
        share("delete refused", "--delete --group s1"),
        Step("the member leaves the share group", prepare=lambda side: side.end("sharer")),
        Step("verifiable-share-consumer", f"{TOOLS}.VerifiableShareConsumer",
             "--topic one --max-messages 20 --group-id s2 --acknowledgement-mode sync"
             " --offset-reset-strategy earliest", mask=(masks.events,), needs=needs,
             expected=("records_consumed",)),
        Step("configs share group s3: earliest", CONFIGS,
             "--alter --entity-type groups --entity-name s3 --add-config"
             " share.auto.offset.reset=earliest", needs=needs),
        Step("share-consumer-perf", f"{TOOLS}.ShareConsumerPerformance",
             "--topic one --num-records 50 --group s3 --timeout 20000", mask=(masks.consumed,),
             needs=needs, expected=("data.consumed.in.nMsg",)),
        Step("groups list share groups", f"{TOOLS}.GroupsCommand", "--list --share", needs=needs,
             mask=(masks.in_any_order,)),
        share("delete", "--delete --group s1"),
        share("delete what is not there", "--delete --group nope"),
        share("list after", "--list"),
    ]  # fmt: skip
