"""State and settings of the broker and of the name server, as mqadmin and the dashboard ask."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.frontends.rocketmq.answers import RemotingAnswer, RequestRefused
from headrace.frontends.rocketmq.offsets import first_time
from headrace.operations.permissions import AdminOperation
from headrace.posix.awaiting import called_back
from headrace.subscriptions.message_rates import RateSpan
from headrace.wire.rocketmq.codes import ResponseCode
from headrace.wire.rocketmq.fastjson import FastJson, Keyed, encode_body
from headrace.wire.rocketmq.requests import Fields
from headrace.wire.rocketmq.sent_messages import BODY_BYTES_MAX
from headrace.wire.rocketmq.topic_names import TRACE_TOPIC

if TYPE_CHECKING:
    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker
    from headrace.log.log import Log

VERSION = "V5_5_0"
"""The release of RocketMQ whose protocol the broker speaks."""
SERVER_SIDE_RESET = "useServerSideResetOffset"
_UPDATE_BYTES_MAX = 64 * 1024
_MS_A_DAY = 86_400_000


def cluster_info(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_BROKER_CLUSTER_INFO (106): the brokers by name, and the clusters."""
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER)
    broker = call.broker
    # Broker ids are never quoted in this answer, whatever the client's version.
    addresses = Keyed(((0, call.peer.endpoint),))
    return RemotingAnswer(
        body=encode_body(
            {
                "brokerAddrTable": {
                    broker.name: {
                        "brokerAddrs": addresses,
                        "brokerName": broker.name,
                        "cluster": broker.settings.cluster,
                        "enableActingMaster": False,
                    }
                },
                "clusterAddrTable": {broker.settings.cluster: [broker.name]},
            }
        )
    )


_V5_0_0 = 412
"""The first version of 5.0. Before it mqadmin reads a rate by a name with an "r" less, and fails
without it."""


def runtime_info(call: "RemotingCall") -> None:
    """Answer GET_BROKER_RUNTIME_INFO (28). Threads and queues that Headrace has not are 0."""
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    call.work(_runtime(call))


async def _runtime(call: "RemotingCall") -> RemotingAnswer:
    broker = call.broker
    logs = [
        partition.log
        for info in broker.topic_names().values()
        for index in range(len(info.partitions))
        if (partition := broker.broker.partitions.get((info.name, index))) is not None
    ]
    earliest_ms = await called_back(partial(broker.broker.disk.run, partial(_earliest_ms, logs)))
    table: dict[str, FastJson] = {**_state(broker), **_traffic(broker), **_NOT_HAD}
    table["earliestMessageTimeStamp"] = str(earliest_ms)
    if call.command.version < _V5_0_0:
        table["getTransferedTps"] = table["getTransferredTps"]
    return RemotingAnswer(body=encode_body({"table": dict(sorted(table.items()))}))


def _earliest_ms(logs: "Sequence[Log]") -> int:
    """Return when the first message of some logs was stored, -1 without one. On any thread."""
    return min(filter(lambda at: at >= 0, map(first_time, logs)), default=-1)


def _state(broker: "ServedBroker") -> dict[str, str]:
    now_ms = broker.broker.clock.wall_ms()
    seconds, days = divmod(max(now_ms - broker.started_ms, 0), _MS_A_DAY)[::-1]
    seconds //= 1000
    disk = broker.broker.disk
    totals = [
        (disk.total_bytes(each.path), disk.free_bytes(each.path))
        for each in broker.broker.directories
    ]
    total, free = sum(each[0] for each in totals), sum(each[1] for each in totals)
    used = f"{(total - free) / total if total else 0.0:.2f}"
    return {
        "bootTimestamp": str(broker.started_ms),
        "brokerActive": "true",
        "brokerVersionDesc": VERSION,
        "commitLogDirCapacity": f"Total : {_gib(total)}, Free : {_gib(free)}.",
        "commitLogDiskRatio": used,
        "consumeQueueDiskRatio": used,
        "runtime": (
            f"[ {days} days, {seconds // 3600} hours, {seconds // 60 % 60} minutes,"
            f" {seconds % 60} seconds ]"
        ),
        "startAcceptSendRequestTimeStamp": "0",
    }


def _gib(size: int) -> str:
    return f"{size / 1024**3:.1f} GiB"


def _traffic(broker: "ServedBroker") -> dict[str, str]:
    traffic = broker.traffic
    stored = " ".join(str(traffic.stored_rate(span=span).per_second) for span in RateSpan)
    pulled = " ".join(str(traffic.pulled_rate(span=span).per_second) for span in RateSpan)
    return {
        "getFoundTps": pulled,
        "getMissTps": "0.0 0.0 0.0",
        "getTotalTps": pulled,
        "getTransferredTps": pulled,
        "msgGetTotalTodayMorning": "0",
        "msgGetTotalTodayNow": str(traffic.pulled_count),
        "msgGetTotalYesterdayMorning": "0",
        "msgPutTotalTodayMorning": "0",
        "msgPutTotalTodayNow": str(traffic.stored_count),
        "msgPutTotalYesterdayMorning": "0",
        "putTps": stored,
    }


_NOT_HAD: Mapping[str, str] = {
    **{
        f"{pool}ThreadPoolQueue{what}": "0"
        for pool in ("send", "pull", "litePull", "query", "ack")
        for what in ("Size", "Capacity", "HeadWaitTimeMills")
    },
    **dict.fromkeys(
        (
            "EndTransactionQueueSize", "EndTransactionThreadPoolQueueCapacity",
            "dispatchBehindBytes", "dispatchMaxBuffer", "pageCacheLockTimeMills",
            "remainTransientStoreBufferNumbs", "timerCongestNum",
            "timerOffsetBehind", "timerReadBehind",
        ),
        "0",
    ),
    "timerDequeueTps": "0.0",
    "timerEnqueueTps": "0.0",
}  # fmt: skip
"""Numbers of RocketMQ's thread pools and files, which tools read and Headrace does not have."""


# Settings


def broker_config(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_BROKER_CONFIG (26): the settings that have a name in RocketMQ, as properties."""
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    counted = {"counter": 0, "stateVersion": 0, "timestamp": call.broker.started_ms}
    version = encode_body({**counted}).decode()
    return _properties(_settings(call), {"version": version})


def _settings(call: "RemotingCall") -> dict[str, object]:
    broker = call.broker
    config, settings = broker.broker.config, broker.settings
    host, _, port = call.peer.endpoint.rpartition(":")
    retention_ms = int(settings.topic_config["retention.ms"])
    return {
        "autoCreateSubscriptionGroup": True,
        "autoCreateTopicEnable": config.auto_create_topics_enable,
        "brokerClusterName": settings.cluster,
        "brokerIP1": host,
        "brokerId": 0,
        "brokerName": broker.name,
        "brokerPermission": 6,
        "cleanFileForciblyEnable": settings.cleaning.forcibly,
        "diskMaxUsedSpaceRatio": settings.cleaning.expired_percent,
        "diskSpaceCleanForciblyRatio": settings.cleaning.forcibly_percent,
        "diskSpaceWarningLevelRatio": settings.disk_used_percent_max,
        "brokerRole": "SYNC_MASTER" if settings.send_mode.replicates else "ASYNC_MASTER",
        "defaultTopicQueueNums": settings.queues_default,
        "fileReservedTime": -1 if retention_ms < 0 else retention_ms // 3_600_000,
        "flushDiskType": "SYNC_FLUSH" if settings.send_mode.flushes else "ASYNC_FLUSH",
        "listenPort": port,
        "litePullMessageEnable": True,
        "longPollingEnable": True,
        "maxMessageSize": BODY_BYTES_MAX,
        "msgTraceTopicName": TRACE_TOPIC,
        "namesrvAddr": call.peer.endpoint,
        "regionId": settings.region,
        "slaveTimeout": int(settings.send_mode.replicas_seconds * 1000),
        "syncFlushTimeout": int(settings.send_mode.flush_seconds * 1000),
        "traceOn": True,
        "traceTopicEnable": settings.trace_topic,
        SERVER_SIDE_RESET: settings.resets_on_server,
    }


def update_broker_config(call: "RemotingCall") -> None:
    """Answer UPDATE_BROKER_CONFIG (25): `useServerSideResetOffset` alone can be changed.

    RocketMQ allows all names but some, which has let clients write files (CVE-2023-33246). The
    change lasts until the broker stops; the lasting setting is rocketmq.server.side.reset.
    """
    body = bytes(call.command.body)
    if len(body) > _UPDATE_BYTES_MAX:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the settings are too large")
    asked = _parsed(body.decode("utf-8", "replace"))
    call.require_admin(AdminOperation.ALTER_CLUSTER_CONFIGS)
    refused = sorted(asked.keys() - {SERVER_SIDE_RESET})
    value = asked.get(SERVER_SIDE_RESET, "")
    if refused or value not in ("true", "false"):
        names = ", ".join(refused) or f"{SERVER_SIDE_RESET}={value}"
        text = f"Can not update config: {names}. {SERVER_SIDE_RESET}=true|false can be updated."
        raise RequestRefused(ResponseCode.NO_PERMISSION, text)
    call.change(asked, _set_resets(call.broker, value == "true"), RemotingAnswer())


async def _set_resets(broker: "ServedBroker", on_server: bool) -> None:
    broker.settings = broker.settings._replace(resets_on_server=on_server)


def _parsed(text: str) -> dict[str, str]:
    """Return the names and values of Java properties, without escapes."""
    found = {}
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        if separator and not name.startswith("#"):
            found[name.strip()] = value.strip()
    return found


def name_server_config(call: "RemotingCall") -> RemotingAnswer:
    """Answer GET_NAMESRV_CONFIG (319)."""
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    port = call.peer.endpoint.rpartition(":")[2]
    settings: dict[str, object] = {
        "clusterTest": False,
        "enableAllTopicList": True,
        "enableTopicList": True,
        "listenPort": port,
        "orderMessageEnable": True,
    }
    return _properties(settings, None)


def _properties(settings: Mapping[str, object], fields: Mapping[str, str] | None) -> RemotingAnswer:
    lines = (
        f"{name}={str(value).lower() if isinstance(value, bool) else value}\n"
        for name, value in sorted(settings.items())
    )
    return RemotingAnswer(fields=fields, body="".join(lines).encode())


# The permission to write, in routes


def wipe_writes(call: "RemotingCall") -> None:
    """Answer WIPE_WRITE_PERM_OF_BROKER (205): routes show producers no queue of the broker.

    Until it is given back (327), or the broker starts again.
    """
    _set_writes(call, True, "wipeTopicCount")


def add_writes(call: "RemotingCall") -> None:
    """Answer ADD_WRITE_PERM_OF_BROKER (327)."""
    _set_writes(call, False, "addTopicCount")


def _set_writes(call: "RemotingCall", wiped: bool, counted: str) -> None:
    name = Fields(call.command).text("brokerName")
    call.require_admin(AdminOperation.ALTER_CLUSTER_CONFIGS)
    broker = call.broker
    count = len(broker.topic_names()) if name == broker.name else 0
    answer = RemotingAnswer(fields={counted: str(count)})
    if name != broker.name:
        call.answer(answer)
        return

    async def change() -> None:
        broker.writes_wiped = wiped

    call.change({"brokerName": name, "writable": not wiped}, change(), answer)


def nothing_to_clean(call: "RemotingCall") -> RemotingAnswer:
    """Answer CLEAN_EXPIRED_CONSUMEQUEUE (306) and CLEAN_UNUSED_TOPIC (316): there is nothing.

    Headrace has no files beside the log that could be left over.
    """
    call.require_admin(AdminOperation.DESCRIBE_CLUSTER_CONFIGS)
    return RemotingAnswer()
