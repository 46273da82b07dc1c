"""Patterns of OffsetCommit requests: the bytes that requests of one member have in common.

A consumer commits the same partitions again and again: its requests differ in correlation id,
offsets and leader epochs. A `CommitPattern` is learned from a request without refused partitions;
it matches requests that are equal in all other bytes, without decoding them.
"""

import struct
from typing import TYPE_CHECKING, NamedTuple

from headrace.coordination.groups.repeated_commits import RepeatedCommit
from headrace.model.errors import ErrorCode
from headrace.wire.kafka.hot import offset_commit as codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker.metadata_image import MetadataImage
    from headrace.coordination.groups.limits import GroupLimits
    from headrace.coordination.groups.messages import CommitRequest

_LEAD_BYTES = 8
"""Bytes of length, API key and version, equal in all frames of a pattern."""
_ID_BYTES = 4
PLACES_MAX = 256
BODY_BYTES_MAX = 8 << 10
NAMES_BYTES_MAX = 32 << 10
"""Bytes of names in a request's records above which it is not learned.

A connection stores about as many bytes, and there may be many connections.
"""
_OFFSET_BYTES, _EPOCH_BYTES = 8, 4


class CommitMatch(NamedTuple):
    """Consecutive OffsetCommit requests that match a pattern."""

    correlation_ids: list[int]
    offsets: list[int]
    """Offsets of all partitions, request by request."""
    leader_epochs: list[int]


class Frames:
    """The frames of a pattern with a certain request header, for matching in a buffer."""

    __slots__ = ("_header", "_iter_unpack", "_lead", "_step", "_words", "size")

    def __init__(self, pattern: "CommitPattern", frame: memoryview) -> None:
        """Create the frames of a pattern.

        `frame` is the whole request that the pattern was learned from, with its length.
        """
        header = len(frame) - pattern.size - _LEAD_BYTES - _ID_BYTES
        shape = struct.Struct(f">{_LEAD_BYTES}si{header}s{pattern.shape}")
        self._iter_unpack = shape.iter_unpack
        fields = shape.unpack(frame)
        self._lead, self._header, self._words = fields[0], fields[2], pattern.words
        self._step = pattern.step
        self.size = len(frame)

    def find(self, view: memoryview, at: int, most: int) -> CommitMatch:
        """Return the requests from `at` on that match, up to the first other one."""
        found = CommitMatch([], [], [])
        ids, offsets, leader_epochs = found
        lead, header, words, step = self._lead, self._header, self._words, self._step
        epochs_at = 5 if step > 2 else 0
        for fields in self._iter_unpack(view[at : at + most * self.size]):
            if fields[0] != lead or fields[2] != header or fields[3::step] != words:
                break
            ids.append(fields[1])
            offsets += fields[4::step]
            if epochs_at:
                leader_epochs += fields[epochs_at::step]
        if not epochs_at:
            leader_epochs += [-1] * len(offsets)
        return found


class CommitPattern:
    """A template of a connection's OffsetCommit requests: their equal bytes, and the answer."""

    __slots__ = (
        "_answer", "_authorisation", "_limits", "_none", "_request", "_structure", "_unpack",
        "repeated", "shape", "size", "step", "version", "words",
    )  # fmt: skip

    def __init__(
        self,
        image: "MetadataImage",
        limits: "GroupLimits",
        authorisation: int,
        version: int,
        body: memoryview,
        places: "Sequence[int]",
        request: codec.OffsetCommitRequest,
        commit: "CommitRequest",
    ) -> None:
        """Learn a pattern; for the arguments see `pattern_of`."""
        self.version = version
        self.size = len(body)
        self.repeated = RepeatedCommit(commit)
        self._request = request
        self._answer: bytes | None = None
        epochs = version >= codec.LEADER_EPOCHS_FROM
        variable = "qi" if epochs else "q"
        width = _OFFSET_BYTES + (_EPOCH_BYTES if epochs else 0)
        parts, at = [], 0
        for place in places:
            parts.append(f"{place - at}s{variable}")
            at = place + width
        self.shape = f"{''.join(parts)}{len(body) - at}s"
        self.step = 1 + len(variable)
        self._unpack = struct.Struct(f">{self.shape}").unpack
        self.words: tuple[bytes, ...] = self._unpack(body)[:: self.step]
        self._none = () if epochs else (-1,) * len(places)
        # The state that the request was checked against: existing topics, limits on metadata, and
        # permissions.
        self._structure = image.structure
        self._limits = limits
        self._authorisation = authorisation

    def frames(self, frame: memoryview) -> Frames:
        """Return the matcher of frames with the header of `frame`, which includes its length."""
        return Frames(self, frame)

    def holds(self, image: "MetadataImage", limits: "GroupLimits", authorisation: int) -> bool:
        """Tell whether topics, limits and permissions are those that the request was checked by."""
        return (
            self._structure == image.structure
            and self._limits is limits
            and self._authorisation == authorisation
        )

    def match(self, body: memoryview) -> "tuple[Sequence[int], Sequence[int]] | None":
        """Return offsets and leader epochs of a request that matches, or None."""
        if len(body) != self.size:
            return None
        fields = self._unpack(body)
        step = self.step
        if fields[::step] != self.words:
            return None
        return fields[1::step], self._none or fields[2::step]

    def answer(self, error: ErrorCode) -> bytes:
        """Return the answer's body if all partitions have the error code `error`."""
        if error is ErrorCode.NONE and self._answer is not None:
            return self._answer
        answer = encode_answer(self.version, self._request, {}, error)
        if error is ErrorCode.NONE:
            self._answer = answer
        return answer


def pattern_of(
    image: "MetadataImage",
    limits: "GroupLimits",
    authorisation: int,
    version: int,
    body: memoryview,
    places: "Sequence[int]",
    request: codec.OffsetCommitRequest,
    commit: "CommitRequest",
) -> CommitPattern | None:
    """Return the pattern of a request without refused partitions, or None if it is too large.

    The request's offsets are at `places` in its `body`. `authorisation` is the version of the
    permissions that it was checked against.
    """
    if len(body) > BODY_BYTES_MAX or len(places) > PLACES_MAX or commit.retention_ms >= 0:
        return None
    names = len(commit.group_id) * len(places) + sum(len(offset.topic) for offset in commit.offsets)
    if names > NAMES_BYTES_MAX:
        return None
    return CommitPattern(image, limits, authorisation, version, body, places, request, commit)


def encode_answer(
    version: int,
    request: codec.OffsetCommitRequest,
    refused: dict[tuple[int, int], ErrorCode],
    error: ErrorCode,
) -> bytes:
    """Encode the answer, with `error` for all partitions that have no error of their own."""
    if error is not ErrorCode.NONE and refused:
        # A group's error is for all partitions; metadata sizes were not checked then.
        too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
        refused = {at: code for at, code in refused.items() if code is not too_large}
    topics = [
        codec.TopicResponse(
            topic.name,
            topic.topic_id,
            [
                codec.PartitionResponse(
                    partition.partition, refused.get((at, number), error) if refused else error
                )
                for number, partition in enumerate(topic.partitions)
            ],
        )
        for at, topic in enumerate(request.topics)
    ]
    return codec.encode_response(version, codec.OffsetCommitResponse(topics))
