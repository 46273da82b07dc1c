"""Methods of the classes exchange, queue and basic: ids, fields, defaults.

Together with control_methods this is the table by which methods are encoded and decoded. `ticket`
is from AMQP 0-8 and ignored.
"""

from typing import NamedTuple

from headrace.wire.amqp.field_kinds import (
    NO_ARGUMENTS,
    Bit,
    Long,
    LongLong,
    Short,
    ShortString,
    Table,
    method,
)


@method(40, 10)
class ExchangeDeclare(NamedTuple):
    ticket: Short = 0
    exchange: ShortString = ""
    type: ShortString = "direct"
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = NO_ARGUMENTS


@method(40, 11)
class ExchangeDeclareOk(NamedTuple):
    pass


@method(40, 20)
class ExchangeDelete(NamedTuple):
    ticket: Short = 0
    exchange: ShortString = ""
    if_unused: Bit = False
    nowait: Bit = False


@method(40, 21)
class ExchangeDeleteOk(NamedTuple):
    pass


@method(40, 30)
class ExchangeBind(NamedTuple):
    ticket: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = NO_ARGUMENTS


@method(40, 31)
class ExchangeBindOk(NamedTuple):
    pass


@method(40, 40)
class ExchangeUnbind(NamedTuple):
    ticket: Short = 0
    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = NO_ARGUMENTS


@method(40, 51)
class ExchangeUnbindOk(NamedTuple):
    pass


@method(50, 10)
class QueueDeclare(NamedTuple):
    ticket: Short = 0
    queue: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = NO_ARGUMENTS


@method(50, 11)
class QueueDeclareOk(NamedTuple):
    queue: ShortString
    message_count: Long
    consumer_count: Long


@method(50, 20)
class QueueBind(NamedTuple):
    ticket: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = NO_ARGUMENTS


@method(50, 21)
class QueueBindOk(NamedTuple):
    pass


@method(50, 30)
class QueuePurge(NamedTuple):
    ticket: Short = 0
    queue: ShortString = ""
    nowait: Bit = False


@method(50, 31)
class QueuePurgeOk(NamedTuple):
    message_count: Long


@method(50, 40)
class QueueDelete(NamedTuple):
    ticket: Short = 0
    queue: ShortString = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


@method(50, 41)
class QueueDeleteOk(NamedTuple):
    message_count: Long


@method(50, 50)
class QueueUnbind(NamedTuple):
    ticket: Short = 0
    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    arguments: Table = NO_ARGUMENTS


@method(50, 51)
class QueueUnbindOk(NamedTuple):
    pass


@method(60, 10)
class BasicQos(NamedTuple):
    prefetch_size: Long = 0
    prefetch_count: Short = 0
    global_: Bit = False


@method(60, 11)
class BasicQosOk(NamedTuple):
    pass


@method(60, 20)
class BasicConsume(NamedTuple):
    ticket: Short = 0
    queue: ShortString = ""
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = NO_ARGUMENTS


@method(60, 21)
class BasicConsumeOk(NamedTuple):
    consumer_tag: ShortString


@method(60, 30)
class BasicCancel(NamedTuple):
    consumer_tag: ShortString
    nowait: Bit = False


@method(60, 31)
class BasicCancelOk(NamedTuple):
    consumer_tag: ShortString


@method(60, 40)
class BasicPublish(NamedTuple):
    ticket: Short = 0
    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: Bit = False
    immediate: Bit = False


@method(60, 50)
class BasicReturn(NamedTuple):
    reply_code: Short
    reply_text: ShortString
    exchange: ShortString
    routing_key: ShortString


@method(60, 60)
class BasicDeliver(NamedTuple):
    consumer_tag: ShortString
    delivery_tag: LongLong
    redelivered: Bit
    exchange: ShortString
    routing_key: ShortString


@method(60, 70)
class BasicGet(NamedTuple):
    ticket: Short = 0
    queue: ShortString = ""
    no_ack: Bit = False


@method(60, 71)
class BasicGetOk(NamedTuple):
    delivery_tag: LongLong
    redelivered: Bit
    exchange: ShortString
    routing_key: ShortString
    message_count: Long


@method(60, 72)
class BasicGetEmpty(NamedTuple):
    cluster_id: ShortString = ""


@method(60, 80)
class BasicAck(NamedTuple):
    delivery_tag: LongLong = 0
    multiple: Bit = False


@method(60, 90)
class BasicReject(NamedTuple):
    delivery_tag: LongLong
    requeue: Bit = True


@method(60, 100)
class BasicRecoverAsync(NamedTuple):
    requeue: Bit = False


@method(60, 110)
class BasicRecover(NamedTuple):
    requeue: Bit = False


@method(60, 111)
class BasicRecoverOk(NamedTuple):
    pass


@method(60, 120)
class BasicNack(NamedTuple):
    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = True
