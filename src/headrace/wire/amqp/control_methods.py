"""Methods of the classes connection, channel, access, confirm and tx: ids, fields, defaults.

Together with model_methods this is the table by which methods are encoded and decoded. Consecutive
bits share a byte. `access` is from AMQP 0-8; old clients still send it, and RabbitMQ answers.
"""

from typing import NamedTuple

from headrace.wire.amqp.field_kinds import (
    Bit,
    Long,
    LongString,
    Octet,
    Short,
    ShortString,
    Table,
    method,
)


@method(10, 10)
class ConnectionStart(NamedTuple):
    version_major: Octet
    version_minor: Octet
    server_properties: Table
    mechanisms: LongString
    locales: LongString


@method(10, 11)
class ConnectionStartOk(NamedTuple):
    client_properties: Table
    mechanism: ShortString
    response: LongString
    locale: ShortString


@method(10, 20)
class ConnectionSecure(NamedTuple):
    challenge: LongString


@method(10, 21)
class ConnectionSecureOk(NamedTuple):
    response: LongString


@method(10, 30)
class ConnectionTune(NamedTuple):
    channel_max: Short
    frame_max: Long
    heartbeat: Short


@method(10, 31)
class ConnectionTuneOk(NamedTuple):
    channel_max: Short
    frame_max: Long
    heartbeat: Short


@method(10, 40)
class ConnectionOpen(NamedTuple):
    virtual_host: ShortString = "/"
    capabilities: ShortString = ""
    insist: Bit = False


@method(10, 41)
class ConnectionOpenOk(NamedTuple):
    known_hosts: ShortString = ""


@method(10, 50)
class ConnectionClose(NamedTuple):
    reply_code: Short
    reply_text: ShortString
    class_id: Short
    method_id: Short


@method(10, 51)
class ConnectionCloseOk(NamedTuple):
    pass


@method(10, 60)
class ConnectionBlocked(NamedTuple):
    reason: ShortString = ""


@method(10, 61)
class ConnectionUnblocked(NamedTuple):
    pass


@method(10, 70)
class ConnectionUpdateSecret(NamedTuple):
    new_secret: LongString
    reason: ShortString


@method(10, 71)
class ConnectionUpdateSecretOk(NamedTuple):
    pass


@method(20, 10)
class ChannelOpen(NamedTuple):
    out_of_band: ShortString = ""


@method(20, 11)
class ChannelOpenOk(NamedTuple):
    channel_id: LongString = b""


@method(20, 20)
class ChannelFlow(NamedTuple):
    active: Bit


@method(20, 21)
class ChannelFlowOk(NamedTuple):
    active: Bit


@method(20, 40)
class ChannelClose(NamedTuple):
    reply_code: Short
    reply_text: ShortString
    class_id: Short
    method_id: Short


@method(20, 41)
class ChannelCloseOk(NamedTuple):
    pass


@method(30, 10)
class AccessRequest(NamedTuple):
    realm: ShortString = "/data"
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


@method(30, 11)
class AccessRequestOk(NamedTuple):
    ticket: Short = 1


@method(85, 10)
class ConfirmSelect(NamedTuple):
    nowait: Bit = False


@method(85, 11)
class ConfirmSelectOk(NamedTuple):
    pass


@method(90, 10)
class TxSelect(NamedTuple):
    pass


@method(90, 11)
class TxSelectOk(NamedTuple):
    pass


@method(90, 20)
class TxCommit(NamedTuple):
    pass


@method(90, 21)
class TxCommitOk(NamedTuple):
    pass


@method(90, 30)
class TxRollback(NamedTuple):
    pass


@method(90, 31)
class TxRollbackOk(NamedTuple):
    pass
