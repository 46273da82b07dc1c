"""Filters of pulls: by tag, or by SQL92 over the properties of messages."""

from typing import NamedTuple

from headrace.frontends.rocketmq.answers import RequestRefused
from headrace.frontends.rocketmq.pulling.reading import RECORDS_MAX
from headrace.subscriptions.sql.parser import SQL_TYPE, sql_filter
from headrace.subscriptions.sql.tokens import FilterInvalid
from headrace.subscriptions.tag_filters import TAG_TYPE, TagFilter
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.properties import TAGS, decode_properties, find_property
from headrace.wire.rocketmq.pulled_messages import Wanted

RECORDS_AT_ONCE = 1000
"""Records that are decoded on the deciding thread; more are decoded on another one."""
STEPS_AT_ONCE = 1000
"""Steps of SQL92 filters on the deciding thread, 0.3 to 2 µs each."""
STEPS_MAX = 100_000
"""Steps of SQL92 filters in one read; then the read ends, and the pull reads on in another."""
STEPS_OF_A_MESSAGE = 10
"""Steps that the decoding of a message's properties counts as."""


class PullFilter(NamedTuple):
    """The messages that a pull wants, and how many records are filtered at a time."""

    wanted: Wanted | None = None
    """None: all messages."""
    records_at_once: int = RECORDS_AT_ONCE
    """Records of one read that may be filtered on the deciding thread."""
    records_max: int = RECORDS_MAX
    """Records of one read on any thread."""


def filter_of(kind: str, expression: str) -> PullFilter:
    """Return a subscription's filter.

    RequestRefused, SUBSCRIPTION_PARSE_FAILED: the type is unknown, or the expression is invalid.
    """
    if kind in {TAG_TYPE, ""}:
        return _by_tags(expression)
    if kind != SQL_TYPE:
        raise RequestRefused(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            f"filters of type {kind} are not supported; filter by {TAG_TYPE} or {SQL_TYPE}",
        )
    try:
        return _by_sql(expression)
    except FilterInvalid as error:
        raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from None


def _by_tags(expression: str) -> PullFilter:
    tags = TagFilter(expression)
    if tags.wants_all:
        return PullFilter()
    return PullFilter(lambda properties: tags.wants(find_property(properties, TAGS)))


def _by_sql(expression: str) -> PullFilter:
    found = sql_filter(expression)
    steps = STEPS_OF_A_MESSAGE + found.cost
    return PullFilter(
        lambda properties: found.wants(decode_properties(properties)),
        STEPS_AT_ONCE // steps,
        max(STEPS_MAX // steps, 1),
    )
