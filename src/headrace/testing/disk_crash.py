"""Disks that a power cut may leave of a SimDisk (guarantees.md, fault F2).

    operations on       covered by a sync   after the last sync
    a file's content    kept                any subset of the 512-byte sectors;
                                            any length from the old to the new one
    a directory         kept                the first few, cut at any point: file
                                            systems journal them in order

Directories are independent of each other, and syncing a file does not save its name. These are the
rules of the worst disk that keeps its guarantees.
"""

import random
from collections.abc import Container, Iterator
from copy import deepcopy

from headrace.testing.disk import Node, Op, SimDisk
from headrace.testing.disk_file import put

SECTOR_BYTES = 512


def crash_states(disk: SimDisk, cut: int, seed: int, samples: int = 4) -> Iterator[SimDisk]:
    """Yield disks that a power cut just before operation number `cut` may leave.

    The first has lost everything unsynced, the second nothing, then `samples` random ones follow.
    Each is a new SimDisk.
    """
    yield _crashed(disk, cut, _draw(seed, cut, -1), 0.0)
    yield _crashed(disk, cut, _draw(seed, cut, -1), 1.0)
    for sample in range(samples):
        draw = _draw(seed, cut, sample)
        yield _crashed(disk, cut, draw, draw.choice((0.2, 0.6, 0.9)))


def _draw(seed: int, cut: int, sample: int) -> random.Random:
    return random.Random(seed * 1_000_003 + cut * 101 + sample)  # noqa: S311 - not for secrets


def _crashed(disk: SimDisk, cut: int, draw: random.Random, luck: float) -> SimDisk:
    ops = disk.ops[:cut]
    left = SimDisk(disk.now_ms)
    nodes = _tree(disk.base, ops, draw, luck)
    _contents(nodes, ops, draw, luck, disk.unsaved)
    left.base = _reachable(nodes)
    left.nodes = deepcopy(left.base)
    return left


def _durable_until(ops: list[Op], kind: str) -> dict[int, int]:
    """Return, by node, the number of the first operation that its syncs did not cover."""
    until: dict[int, int] = {}
    for operation in ops:
        if operation.kind == kind:
            until[operation.node] = max(until.get(operation.node, 0), operation.number)
    return until


def _tree(
    base: dict[int, Node], ops: list[Op], draw: random.Random, luck: float
) -> dict[int, Node]:
    until = _durable_until(ops, "dirsync")
    nodes = deepcopy(base)
    stopped: set[int] = set()
    for number, operation in enumerate(ops):
        if operation.kind not in {"link", "unlink", "rename"}:
            continue
        if operation.kind == "link":
            nodes[operation.number] = Node(entries={} if operation.directory else None)
        durable = number < until.get(operation.node, 0)
        if not durable and draw.random() >= luck:
            stopped.add(operation.node)
        if durable or operation.node not in stopped:
            _apply_name(nodes, operation)
    return nodes


def _apply_name(nodes: dict[int, Node], operation: Op) -> None:
    entries = nodes[operation.node].entries
    if entries is None:
        return
    if operation.kind == "link":
        entries[operation.name] = operation.number
        return
    gone = entries.pop(operation.name, None)
    others = nodes[operation.number].entries if operation.kind == "rename" else None
    if others is not None and gone is not None:
        others[operation.new_name] = gone


def _contents(
    nodes: dict[int, Node],
    ops: list[Op],
    draw: random.Random,
    luck: float,
    unsaved: Container[int],
) -> None:
    until = _durable_until(ops, "sync")
    lengths = {number: len(node.content) for number, node in nodes.items()}
    for number, operation in enumerate(ops):
        if operation.kind not in {"write", "truncate"} or operation.node not in nodes:
            continue
        durable = number < until.get(operation.node, 0)
        content = nodes[operation.node].content
        if operation.kind == "truncate":
            if durable or draw.random() < luck:
                operation.apply(content)
        elif number not in unsaved:
            for at in range(0, len(operation.data), SECTOR_BYTES):
                if durable or draw.random() < luck:
                    piece = operation.data[at : at + SECTOR_BYTES]
                    put(content, operation.number + at, piece)
        if durable:
            lengths[operation.node] = len(content)
    for number, node in nodes.items():
        shortest = min(lengths.get(number, 0), len(node.content))
        if luck < 1.0:
            del node.content[draw.randint(shortest, len(node.content)) :]


def _reachable(nodes: dict[int, Node]) -> dict[int, Node]:
    found: dict[int, Node] = {}
    waiting = [0]
    while waiting:
        number = waiting.pop()
        found[number] = nodes[number]
        waiting.extend((nodes[number].entries or {}).values())
    return found
