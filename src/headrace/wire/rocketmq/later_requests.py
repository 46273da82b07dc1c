"""The fields of requests on messages that are delivered later: send back, transactions, recall."""

from typing import NamedTuple

from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.stored_messages import SystemFlag


class SendBackRequest(NamedTuple):
    """Request 36: a consumer could not process a message."""

    group: str
    physical_offset: int
    delay_level: int
    """0: the broker chooses by the number of attempts; negative: to the dead letters."""
    reconsume_times_max: int | None
    """None: the broker's limit; clients before 3.4.9 send none."""


def send_back_request(command: RemotingCommand) -> SendBackRequest:
    """Read a send back. Raises InvalidField."""
    fields = Fields(command)
    return SendBackRequest(
        fields.text("group"),
        fields.long("offset"),
        fields.number("delayLevel", 0),
        fields.number_if_any("maxReconsumeTimes"),
    )


class EndTransactionRequest(NamedTuple):
    """Request 37: a producer decides on a message that waits for it."""

    producer_group: str
    physical_offset: int
    """The place of the message in the log of undecided messages."""
    queue_offset: int | None
    """Its offset there; None: the client sent none."""
    decision: int
    """The bits of `SystemFlag`: COMMITTED, ROLLED_BACK; 0: not decided yet."""


def end_transaction_request(command: RemotingCommand) -> EndTransactionRequest:
    """Read the end of a transaction. Raises InvalidField."""
    fields = Fields(command)
    queue_offset = fields.long("tranStateTableOffset", -1)
    return EndTransactionRequest(
        fields.text("producerGroup"),
        fields.long("commitLogOffset"),
        None if queue_offset < 0 else queue_offset,
        fields.number("commitOrRollback") & SystemFlag.ROLLED_BACK,
    )


class RecallRequest(NamedTuple):
    """Request 370: a producer takes a delayed message back."""

    topic: str
    handle: str


def recall_request(command: RemotingCommand) -> RecallRequest:
    """Read a recall. Raises InvalidField."""
    fields = Fields(command)
    return RecallRequest(fields.text("topic"), fields.text("recallHandle"))
