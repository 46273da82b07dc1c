"""`QueueDeletions`: the topics of deleted queues, which the coordinator has the controller delete.

    declared ──queue.delete──► DELETING, committed ──► its topic is deleted ──► tombstone: free
                                 ▲  │                     │
                                 │  └── after a pause ◄── error
                                 └── another broker coordinates: it finds the record in its table

A declaration of the queue's name waits until the tombstone is appended. So a queue that is declared
again has no topic before it is used, and begins empty on every broker.

The record names the id of the topic, and a topic with another id is not deleted: a coordinator that
does not know yet that another one has taken over must not delete the topic of a later queue. If the
controller knows another id than the coordinator, that one is committed before it is used.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from headrace.cluster.peers.queue_topic_calls import Outcomes, QueueTopicChanges
from headrace.model.errors import ApiError, ErrorCode
from headrace.ports.backoff import backoff_seconds
from headrace.queues.queue_names import queue_topic
from headrace.vhosts.declarations.new_records import Deleted

if TYPE_CHECKING:
    from headrace.cluster.peers.conversation import Run
    from headrace.vhosts.declarations.coordinator_shard import CoordinatorShard

_logger = logging.getLogger(__name__)

TOPICS_AT_ONCE = 100
"""Topics in one request to the controller at most."""
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 2.0
"""Bounds of the seconds between two requests, of which the first deleted nothing."""
ChangeTopics = Callable[[QueueTopicChanges], Awaitable[Outcomes]]
"""Has the controller change topics of queues. Raises ApiError."""


class _Deleting:
    """The deleted queues of one partition, in a coordinator's term."""

    def __init__(self) -> None:
        self.queues: dict[bytes, Deleted] = {}
        """Queues whose topics are to be deleted, by the keys of their committed records."""
        self.waiting: dict[bytes, list[Callable[[], None]]] = {}
        """Callbacks that wait until a key's tombstone is appended."""
        self.runs = False


class QueueDeletions:
    """The deletions of queues that this broker coordinates. On the event loop."""

    def __init__(
        self,
        change: ChangeTopics,
        run: "Run",
        append: "Callable[[CoordinatorShard, Mapping[bytes, Deleted | None]], bool]",
    ) -> None:
        """Create without deletions.

        `run` starts a task on the event loop. `append` appends records, None: a tombstone, and
        calls `begin` for those that are committed; if that fails the shard is dropped. It returns
        False if nothing can be appended now.
        """
        self._change = change
        self._run_task = run
        self._append = append
        self._of: dict[CoordinatorShard, _Deleting] = {}

    def begin(self, shard: "CoordinatorShard", queues: Mapping[bytes, Deleted]) -> None:
        """Delete the topics of queues whose `deleting` records are committed, by their keys."""
        if not shard.is_active:
            return
        # A term that has just begun deletes them before the command is confirmed by all brokers:
        # by then another queue may have the name.
        present = shard.table.records
        queues = {key: each for key, each in queues.items() if present.get(key) == each}
        if not queues:
            return
        deleting = self._of.setdefault(shard, _Deleting())
        deleting.queues.update(queues)
        if not deleting.runs:
            deleting.runs = True
            self._run_task(self._run(shard, deleting))

    def when_free(self, shard: "CoordinatorShard", key: bytes, done: Callable[[], None]) -> None:
        """Call `done` once a queue that is being deleted has its tombstone, or the term ends."""
        self._of.setdefault(shard, _Deleting()).waiting.setdefault(key, []).append(done)

    def dropped(self, shard: "CoordinatorShard") -> None:
        """End a term: the next coordinator continues."""
        deleting = self._of.pop(shard, None)
        if deleting is not None:
            deleting.queues.clear()
            for key in list(deleting.waiting):
                _call(deleting, key)

    async def _run(self, shard: "CoordinatorShard", deleting: _Deleting) -> None:
        failures = 0
        while deleting.queues:
            some = dict(islice(deleting.queues.items(), TOPICS_AT_ONCE))
            changed = await self._deleted(some)
            if not shard.is_active:
                break
            if changed and self._append(shard, changed):
                failures = 0
                _forget(deleting, changed)
            else:
                failures += 1
                pause = backoff_seconds(failures, PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX)
                await asyncio.sleep(pause)
        deleting.runs = False

    async def _deleted(self, queues: Mapping[bytes, Deleted]) -> dict[bytes, Deleted | None]:
        """Delete the topics of queues; return the changed records, None: there is no topic."""
        deleted = {
            queue_topic(vhost, record.name): record.topic_id for vhost, record in queues.values()
        }
        try:
            outcomes = await self._change(QueueTopicChanges(deleted=deleted))
        except ApiError as error:
            _logger.warning("topics of deleted queues are not deleted, retrying: %s", error)
            return {}
        changed: dict[bytes, Deleted | None] = {}
        for (key, (vhost, record)), refused in zip(queues.items(), outcomes, strict=True):
            if refused is None or refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                changed[key] = None
            elif refused.code is not ErrorCode.INCONSISTENT_TOPIC_ID:
                _logger.warning(
                    "the topic of deleted queue %r (vhost %r) is not deleted, retrying: %s",
                    record.name, vhost, refused,
                )  # fmt: skip
            elif record.topic_id:
                changed[key] = None  # another queue's, of the same name
            else:
                changed[key] = vhost, record._replace(topic_id=refused.message or "")
        return changed


def _forget(deleting: _Deleting, changed: Mapping[bytes, Deleted | None]) -> None:
    """Forget queues whose records have changed; their names are free where they have none."""
    for key, left in changed.items():
        deleting.queues.pop(key, None)
        if left is None:
            _call(deleting, key)


def _call(deleting: _Deleting, key: bytes) -> None:
    for done in deleting.waiting.pop(key, ()):
        done()
