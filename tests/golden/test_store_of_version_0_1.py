"""Znodes that three brokers of version 0.1 wrote: each is read, and written again byte for byte."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cluster.store import acl_znodes, znodes
from headrace.model.nouns import BrokerId
from headrace.posix.store.sqlite_tree import Tree
from headrace.queues.model import stored_records
from tests.support.version_before.write_broker import ENDS, GOLDEN, unpack
from tests.support.version_before.write_cluster import recorded_tree

Again = Callable[[str, bytes], bytes]
KINDS: dict[str, Again] = {
    r"/brokers/topics/[^/]+": lambda path, value: znodes.encode_topic(
        znodes.decode_topic(path, value)
    ),
    r"/brokers/topics/.*/state": lambda path, value: znodes.encode_state(
        znodes.decode_state(path, value)
    ),
    r"/config/(topics|brokers|groups|clients|ips|client-metrics|amqp-.+?)/.+": lambda path, value: (
        znodes.encode_config(znodes.decode_config(path, value))
    ),
    r"/config/users/[^/]+": lambda path, value: znodes.encode_config(
        znodes.decode_config(path, value)
    ),
    r"/config/changes/.+": lambda path, value: znodes.encode_config_change(
        znodes.decode_config_change(value) or ""
    ),
    r"/cluster/id": lambda path, value: znodes.encode_cluster_id(znodes.decode_cluster_id(value)),
    r"/latest_producer_id_block": lambda path, value: znodes.encode_producer_ids(
        znodes.decode_producer_ids(value)
    ),
    r"/kafka-acl(-extended/prefixed)?/[^/]+/.+": lambda path, value: acl_znodes.encode_acls(
        sorted(acl_znodes.decode_acls(path, value), key=list(_in_order(path, value)).index)
    ),
}
EMPTY_OR_OF_THE_MOMENT = re.compile(
    r"/brokers/ids/\d+|/controller|/controller_epoch|/feature|/kafka-acl(-extended)?-changes/.+"
)


def _in_order(path: str, value: bytes) -> list[object]:
    """The ACLs of a node as they lie there."""
    parts = value.split(b'{"principal"')
    found: list[object] = []
    for part in parts[1:]:
        one = b'{"version":1,"acls":[{"principal"' + part.rstrip(b",]}") + b"}]}"
        found += acl_znodes.decode_acls(path, one)
    return found


def rewritten(path: str, value: bytes) -> bytes | None:
    """The node as this version writes it; None for a path of no known kind."""
    for pattern, again in KINDS.items():
        if re.fullmatch(pattern, path):
            return again(path, value)
    return None


def test_cluster_nodes_are_written_again_byte_for_byte() -> None:
    seen = set()
    for path, value in recorded_tree().items():
        if not value or EMPTY_OR_OF_THE_MOMENT.fullmatch(path):
            continue
        seen.add(path)
        assert rewritten(path, value) == value, path
    assert len(seen) > 40


def test_registrations_and_controller_are_read_as_recorded() -> None:
    tree = recorded_tree()
    assert znodes.decode_controller(tree[znodes.CONTROLLER]) == 0
    for number in range(3):
        path = f"{znodes.BROKER_IDS}/{number}"
        found = znodes.decode_registration(BrokerId(number), path, tree[path], 1)
        (endpoint,) = found.endpoints
        made = znodes.Registration((endpoint,), found.rack, _timestamp(tree[path]))
        assert znodes.encode_registration(made) == tree[path]


def _timestamp(value: bytes) -> int:
    found = re.search(rb'"timestamp":"(\d+)"', value)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("end", ENDS)
def test_embedded_store_holds_every_kind_of_node(end: str, tmp_path: Path) -> None:
    directory = unpack(GOLDEN / f"broker-{end}.tar.xz", tmp_path)
    tree = Tree(str(directory / "headrace-metadata.db"))
    kinds = set()
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        value = tree.get(path).value
        waiting += [f"{path.rstrip('/')}/{name}" for name in tree.children(path)]
        if value and not EMPTY_OR_OF_THE_MOMENT.fullmatch(path):
            kinds.add(path.split("/")[1])
            again = rewritten(path, value)
            if again is None:
                assert path.startswith("/headrace-amqp/declarations/"), path
                vhost, record = stored_records.decode_record(value)
                again = stored_records.encode_record(vhost, record)
            assert again == value, path
    tree.close()
    assert {"brokers", "config", "kafka-acl", "cluster", "headrace-amqp"} <= kinds
