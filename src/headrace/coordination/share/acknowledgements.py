"""Acknowledgements of acquired records by members (KIP-932, KIP-1222)."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from headrace.delivery.record_states import Outcome
from headrace.model.errors import ApiError, ErrorCode


class AckKind(IntEnum):
    """Acknowledge types as the protocol numbers them."""

    GAP = 0
    """The offset has no record."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """Not processed yet: the acquisition lock is extended by its duration."""


OUTCOMES = {
    AckKind.GAP: Outcome.REJECT,
    AckKind.ACCEPT: Outcome.ACCEPT,
    AckKind.RELEASE: Outcome.RELEASE,
    AckKind.REJECT: Outcome.REJECT,
}


class Ack(NamedTuple):
    """Offsets `first` to `last`, inclusive, and their acknowledge type."""

    first: int
    last: int
    kind: AckKind


def acks_of(batches: Iterable[tuple[int, int, Sequence[int]]], *, renew: bool) -> list[Ack]:
    """Convert acknowledgement batches to ranges of one type. ApiError INVALID_REQUEST.

    A batch has a first and a last offset, and one type or one for each offset. Without `renew` (the
    request announces renewals) a RENEW is invalid.
    """
    acks: list[Ack] = []
    expected = 0
    for first, last, kinds in batches:
        size = last - first + 1
        if first < expected or size <= 0 or len(kinds) not in {1, size}:
            raise ApiError(ErrorCode.INVALID_REQUEST, "acknowledgement batches out of order")
        expected = last + 1
        if len(kinds) == 1:
            acks.append(Ack(first, last, _kind(kinds[0], renew)))
            continue
        begin = first
        for at in range(1, size + 1):
            if at == size or kinds[at] != kinds[at - 1]:
                acks.append(Ack(begin, first + at - 1, _kind(kinds[at - 1], renew)))
                begin = first + at
    return acks


def _kind(number: int, renew: bool) -> AckKind:
    if not 0 <= number <= AckKind.RENEW or (number == AckKind.RENEW and not renew):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"acknowledge type {number}")
    return AckKind(number)
