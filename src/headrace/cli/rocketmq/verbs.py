"""Options, addresses and bodies, as the verbs of `headrace mqadmin` read them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from headrace.cli.rocketmq.options import Options
from headrace.cli.rocketmq.remoting import Remoting
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.output import print_line
from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.fastjson import FastJson, Keyed

Row = Mapping[str, FastJson]


class Asked(NamedTuple):
    """A verb's options, and the connections."""

    name_server: str
    options: Mapping[str, str]
    remoting: Remoting

    def text(self, letter: str, default: str | None = None) -> str:
        """Return an option, which is required if it has no default."""
        return self.options[letter] if default is None else self.options.get(letter, default)

    def number(self, letter: str, default: int) -> int:
        """Return an option that is a number. Raises UsageError."""
        value = self.options.get(letter)
        if value is None:
            return default
        if not value.lstrip("-").isdecimal():
            raise UsageError(f"option -{letter} {value}: must be a number")
        return int(value)

    def flag(self, letter: str, default: bool = False) -> bool:
        """Return an option that is true or false. Raises UsageError."""
        value = self.options.get(letter)
        if value is None:
            return default
        if value not in ("true", "false", ""):
            raise UsageError(f"option -{letter} {value}: must be true or false")
        return value != "false"

    def route(self, topic: str) -> Row:
        """Return a topic's route. AnswerRefused: it has none."""
        asked = {"topic": topic}
        return self.remoting.read(self.name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, asked)

    def brokers_of(self, topic: str) -> list[tuple[str, str]]:
        """Return name and address of each broker of a topic."""
        datas = rows(self.route(topic).get("brokerDatas"))
        return [(str(each["brokerName"]), master(each)) for each in datas]

    def clusters(self) -> dict[str, list[tuple[str, str]]]:
        """Return name and address of each broker by cluster."""
        info = self.remoting.read(self.name_server, RequestCode.GET_BROKER_CLUSTER_INFO)
        table, brokers = info.get("clusterAddrTable"), info.get("brokerAddrTable")
        if not isinstance(table, dict) or not isinstance(brokers, dict):
            raise CommandError("the name server's answer has no clusters")
        return {
            cluster: [(str(name), master(row(brokers.get(str(name))))) for name in names]
            for cluster, names in table.items()
            if isinstance(names, list)
        }

    def addresses(self) -> list[str]:
        """Return the address of -b, or those of the cluster of -c. CommandError: unknown."""
        if "b" in self.options:
            return [self.options["b"]]
        cluster = self.text("c")
        found = self.clusters().get(cluster)
        if not found:
            text = f"Make sure the specified clusterName exists: {cluster}"
            raise CommandError(text)
        return [address for _, address in found]


class Verb(NamedTuple):
    """A verb: its name, its options, and the function that runs it."""

    name: str
    run: Callable[[Asked], None]
    options: Options = Options()


def row(value: FastJson) -> Row:
    """Return an object of an answer, which is empty if it is another value."""
    return value if isinstance(value, dict) else {}


def rows(value: FastJson) -> list[Row]:
    """Return the objects in a list of an answer."""
    return [row(each) for each in value] if isinstance(value, list) else []


def master(data: Row) -> str:
    """Return the address of a broker's first address. CommandError: it has none."""
    addresses = data.get("brokerAddrs")
    if isinstance(addresses, Keyed):
        found = [address for broker_id, address in addresses.pairs if broker_id == 0]
    else:
        found = [row(addresses).get("0")]
    if not found or not isinstance(found[0], str):
        raise CommandError(f"broker {data.get('brokerName')} has no address")
    return found[0]


def by_queue(table: FastJson) -> Iterator[tuple[Row, FastJson]]:
    """Yield queue and value of a map by queue, by topic, broker and id."""
    pairs = table.pairs if isinstance(table, Keyed) else ()
    found = [(row(queue), value) for queue, value in pairs]
    yield from sorted(found, key=lambda pair: _order(pair[0]))


def _order(queue: Row) -> tuple[str, str, int]:
    return str(queue["topic"]), str(queue["brokerName"]), whole(queue["queueId"])


def whole(value: FastJson) -> int:
    """Return a number of an answer, 0 if it is another value."""
    return value if isinstance(value, int) else 0


def local_time(at_ms: int, *, millis: bool = False) -> str:
    """Return a time as mqadmin shows it, empty for 0 and less."""
    if at_ms <= 0:
        return ""
    at = datetime.fromtimestamp(at_ms / 1000)
    shown = at.strftime("%Y-%m-%d %H:%M:%S")
    return f"{shown},{at_ms % 1000:03}" if millis else shown


def columns(form: Sequence[str], *cells: object, between: str = "  ") -> None:
    """Print a line with one cell for each format, in the widths of mqadmin."""
    shown_cells = (f"{cell!s:{width}}" for width, cell in zip(form, cells, strict=True))
    print_line(between.join(shown_cells).rstrip())


def shown(value: FastJson) -> str:
    """Return a value as Java shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
