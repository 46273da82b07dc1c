"""The verbs of `headrace mqadmin` for clusters, brokers and the name server."""

import time

from headrace.cli.rocketmq.options import BROKER, CLUSTER, Option, Options
from headrace.cli.rocketmq.verbs import Asked, Verb, columns, row
from headrace.terminal.output import print_line
from headrace.wire.rocketmq.codes import RequestCode

_BROKERS = ("<22", "<22", "<4", "<21", "<16", ">16", ">30", "<22", ">11", "<12", "<8", ">10")


def cluster_list(asked: Asked) -> None:
    """List the brokers with versions and rates; -m: with sums of messages."""
    sums = "m" in asked.options
    form = ("<17", "<32", ">14", ">14", ">14", ">14") if sums else _BROKERS
    header = (
        ("#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest", "#InTotalToday",
         "#OutTotalToday")
        if sums
        else ("#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)",
              "#OutTPS(LOAD)", "#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED")
    )  # fmt: skip
    between = " " if sums else "  "
    columns(form, *header, between=between)
    for cluster, brokers in asked.clusters().items():
        if cluster != asked.text("c", cluster):
            continue
        for name, address in brokers:
            table = _runtime(asked, address)
            cells = _sums(table) if sums else ("0", address, *_rates(table))
            columns(form, cluster, name, *cells, between=between)


def _runtime(asked: Asked, address: str) -> dict[str, str]:
    found = asked.remoting.read(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return {name: str(value) for name, value in row(found.get("table")).items()}


def _sums(table: dict[str, str]) -> tuple[int, ...]:
    def number(name: str) -> int:
        return int(table.get(name, "0"))

    return (
        number("msgPutTotalTodayMorning") - number("msgPutTotalYesterdayMorning"),
        number("msgGetTotalTodayMorning") - number("msgGetTotalYesterdayMorning"),
        number("msgPutTotalTodayNow") - number("msgPutTotalTodayMorning"),
        number("msgGetTotalTodayNow") - number("msgGetTotalTodayMorning"),
    )


def _rates(table: dict[str, str]) -> tuple[str, ...]:
    def first(name: str) -> float:
        return float(table.get(name, "0").split()[0])

    oldest = int(table.get("earliestMessageTimeStamp", "0"))
    hours = (time.time() * 1000 - oldest) / 3_600_000 if oldest > 0 else 0.0
    return (
        table.get("brokerVersionDesc", ""),
        f"{first('putTps'):.2f}({table.get('sendThreadPoolQueueSize', '0')},0ms)",
        f"{first('getTransferredTps'):.2f}({table.get('pullThreadPoolQueueSize', '0')},0ms|0,0ms)",
        "0-0(0.0w, 0.0, 0.0)",
        table.get("pageCacheLockTimeMills", "0"),
        f"{hours:.2f}",
        f"{float(table.get('commitLogDiskRatio', '0')):.4f}",
        table.get("brokerActive", ""),
    )


def broker_status(asked: Asked) -> None:
    """Show a broker's runtime information."""
    for address in asked.addresses():
        for name, value in _runtime(asked, address).items():
            print_line(f"{name:<32}: {value}")


def broker_config(asked: Asked) -> None:
    """Show a broker's settings by RocketMQ's names."""
    for address in asked.addresses():
        print_line(f"============{address}============")
        answer = asked.remoting.ask(address, RequestCode.GET_BROKER_CONFIG)
        for line in bytes(answer.body).decode().splitlines():
            name, _, value = line.partition("=")
            print_line(f"{name:<50}=  {value}")


def update_broker_config(asked: Asked) -> None:
    """Change a setting of a broker."""
    body = f"{asked.text('k')}={asked.text('v')}\n".encode()
    for address in asked.addresses():
        asked.remoting.ask(address, RequestCode.UPDATE_BROKER_CONFIG, None, body)
        print_line(f"update broker config success, {address}")


def put_value(asked: Asked) -> None:
    """Store a value in the name server by namespace and key."""
    fields = {"namespace": asked.text("s"), "key": asked.text("k"), "value": asked.text("v")}
    asked.remoting.ask(asked.name_server, RequestCode.PUT_KV_CONFIG, fields)
    print_line("create or update kv config to namespace success.")


def delete_value(asked: Asked) -> None:
    """Delete a value in the name server."""
    fields = {"namespace": asked.text("s"), "key": asked.text("k")}
    asked.remoting.ask(asked.name_server, RequestCode.DELETE_KV_CONFIG, fields)
    print_line("delete kv config from namespace success.")


_TARGET = Options(either=(BROKER, CLUSTER))
_NAMESPACE = Option("s", "namespace", "The namespace", required=True)
_KEY = Option("k", "key", "The key", required=True)
_VALUE = Option("v", "value", "The value", required=True)
CLUSTER_VERBS = (
    Verb(
        "clusterList",
        cluster_list,
        Options(
            [CLUSTER, Option("m", "moreStats", "Show sums of messages", valued=False)],
            unavailable=["-i"],
        ),
    ),
    Verb("brokerStatus", broker_status, _TARGET),
    Verb("getBrokerConfig", broker_config, _TARGET),
    Verb(
        "updateBrokerConfig",
        update_broker_config,
        Options([_KEY, _VALUE], (BROKER, CLUSTER), ["-a"]),
    ),
    Verb("updateKvConfig", put_value, Options([_NAMESPACE, _KEY, _VALUE])),
    Verb("deleteKvConfig", delete_value, Options([_NAMESPACE, _KEY])),
)
