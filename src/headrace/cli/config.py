"""`headrace config`: show and alter settings of topics, brokers, groups and client metrics."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, Literal, NamedTuple

from cyclopts import App, Parameter

from headrace.client.admin import topics as admin
from headrace.client.admin.topics import ConfigEntry
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json, setting_pairs
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError, not_found
from headrace.terminal.output import note, print_json, print_line, print_table

app = App(
    name="config", help="Show and change settings of topics, brokers, groups and client metrics."
)

_TYPES = {
    "topic": admin.TOPIC_RESOURCE,
    "broker": admin.BROKER_RESOURCE,
    "group": admin.GROUP_RESOURCE,
    "client-metrics": admin.CLIENT_METRICS_RESOURCE,
}
_SAMPLES = {
    "broker": "server.properties",
    "systemd": "headrace.service",
    "grafana": "headrace-dashboard.json",
    "prometheus": "headrace-alerts.yml",
}
ALL_BROKERS = "default"
"""The name that stands for the settings altered for all brokers."""
_OWN_SOURCES = {
    "topic": {"topic"},
    "broker": {"dynamic broker", "static"},
    "group": {"group"},
    "client-metrics": {"client metrics"},
}
"""By type: the sources of values that were set for the resource itself, not inherited."""
_READ_ONLY_ADVICE = "set it in the broker's file or by headrace serve --set, and start it again"

Type = Annotated[str, Parameter(help="topic, broker, group or client-metrics.")]
Name = Annotated[str, Parameter(help=f"Its name; a broker's id, or {ALL_BROKERS} for all brokers.")]


class _Resource(NamedTuple):
    """A resource that has settings: a topic, broker, group or client metrics subscription."""

    type: str
    name: str

    @property
    def number(self) -> int:
        """The type's number in Kafka's protocol."""
        return _TYPES[self.type]

    @property
    def wire_name(self) -> str:
        """The name in requests; "" for all brokers."""
        return "" if self.type == "broker" and self.name == ALL_BROKERS else self.name

    def is_own(self, entry: ConfigEntry) -> bool:
        """Return whether an entry's value was set for this resource itself."""
        if self.type == "broker" and self.name == ALL_BROKERS:
            return entry.source == "dynamic default"
        return entry.source in _OWN_SOURCES[self.type]

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


@app.command
def get(
    type_: Type,
    name: Name,
    /,
    *keys: Annotated[str, Parameter(help="Which settings; all that are set without any.")],
    value_only: Annotated[
        bool, Parameter(name="--value", help="The values alone, a line each.")
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Show settings and where each value comes from.

    For example: headrace config get topic orders retention.ms cleanup.policy; headrace config get
    broker 1 log.retention.ms --value
    """
    with cluster.client() as client:
        resource = _existing(client, type_, name)
        entries = _described(client, resource)
        if keys:
            _check_keys(resource, keys, entries)
            by_name = {entry.name: entry for entry in entries}
            entries = [by_name[key] for key in keys]
        else:
            entries = [entry for entry in entries if resource.is_own(entry)]
    if json:
        print_json(_as_json(resource, entries))
    elif value_only:
        for entry in entries:
            print_line(_shown(entry))
    elif entries:
        print_table(
            ["SETTING", "VALUE", "SOURCE"],
            [[entry.name, _shown(entry), entry.source] for entry in entries],
        )
    else:
        note(f"nothing is set for {resource}; all settings: headrace config list {resource} --all")


@app.command(name="list", alias=["ls", "describe"])
def list_(
    type_: Annotated[str | None, Parameter(help="Only of this type.")] = None,
    name: Annotated[str | None, Parameter(help="Only of this one.")] = None,
    /,
    *,
    all_: Annotated[
        bool, Parameter(name=["-a", "--all"], help="Settings at their defaults too.")
    ] = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List what is set, of everything or of one; not what is at its default.

    For example: headrace config list; headrace config list topic; headrace config list broker 1
    --all
    """
    with cluster.client() as client:
        if type_ is not None and name is not None:
            resources = [_existing(client, type_, name)]
        else:
            resources = _resources(client, _TYPES if type_ is None else [_type(type_)])
        found = [
            (
                resource,
                [entry for entry in _described(client, resource) if all_ or resource.is_own(entry)],
            )
            for resource in resources
        ]
    if json:
        print_json([_as_json(resource, entries) for resource, entries in found if entries])
        return
    rows = [
        [resource.type, resource.name, entry.name, _shown(entry), entry.source]
        for resource, entries in found
        for entry in entries
    ]
    if rows:
        print_table(["TYPE", "NAME", "SETTING", "VALUE", "SOURCE"], rows)
    else:
        note("nothing is set; all settings and their defaults: --all")


@app.command(name="set", alias="alter")
def set_(
    type_: Type,
    name: Name,
    /,
    *settings: Annotated[str, Parameter(help="key=value, any number.")],
    delete: Annotated[
        tuple[str, ...],
        Parameter(
            name=["-d", "--delete", "--delete-config"],
            help="A setting to take back to its default; may be given again.",
        ),
    ] = (),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Set settings at once, without a restart; those not named stay as they are.

    For example: headrace config set topic orders retention.ms=3600000 -d cleanup.policy; headrace
    config set broker default log.retention.ms=86400000
    """
    changes = setting_pairs("key=value", settings)
    deleted = [key for text in delete for key in text.split(",") if key]
    if not changes and not deleted:
        raise UsageError("nothing to set: give key=value, or -d key")
    if both := sorted(changes.keys() & set(deleted)):
        raise UsageError(f"{both[0]}: set and deleted at once")
    with cluster.client() as client:
        resource = _existing(client, type_, name, to_set=True)
        # The entries for all brokers list only keys that are set; any broker lists all keys.
        known = _described(client, _a_broker(client) if _is_all_brokers(resource) else resource)
        _check_keys(resource, [*changes, *deleted], known)
        _refuse_read_only(resource, [*changes, *deleted], known)
        run(
            admin.alter_configs(
                client, resource.number, resource.wire_name, set_=changes, delete=deleted
            )
        )
    if json:
        print_json({**resource._asdict(), "set": changes, "deleted": deleted})
        return
    for key, value in changes.items():
        print_line(f"{resource}: {key}={value}")
    for key in deleted:
        print_line(f"{resource}: {key} is at its default")


@app.command
def sample(file: Literal["broker", "systemd", "grafana", "prometheus"] = "broker", /) -> None:
    """Print a sample file: the broker's settings, a unit, a dashboard or alert rules.

    For example: headrace config sample > server.properties; headrace config sample systemd
    > headrace.service

    Parameters
    ----------
    file: str
        broker (a commented server.properties), systemd, grafana or prometheus.
    """
    from importlib.resources import files

    path = files("headrace.config").joinpath("samples", _SAMPLES[file])
    print_line(path.read_text("utf-8").rstrip())


def _type(text: str) -> str:
    """Return the type that `text` names, also by Kafka's plural. Raises UsageError."""
    singular = text if text in _TYPES else text.removesuffix("s")
    if singular not in _TYPES:
        raise UsageError(f"{text} has no settings: must be {', '.join(_TYPES)}")
    return singular


def _is_all_brokers(resource: _Resource) -> bool:
    return resource.type == "broker" and resource.name == ALL_BROKERS


def _a_broker(client: Client) -> _Resource:
    return _Resource("broker", str(min(run(client.metadata([])).brokers)))


def _existing(client: Client, type_: str, name: str, *, to_set: bool = False) -> _Resource:
    """Return the resource; CommandError if there is no such topic, broker or subscription.

    Groups can have settings before they exist. So can client metrics subscriptions: with `to_set` a
    new name is accepted.
    """
    resource = _Resource(_type(type_), name)
    if resource.type == "topic":
        topics = run(client.metadata()).topics
        if name not in topics:
            raise not_found("topic", name, sorted(topics))
    elif resource.type == "broker" and name != ALL_BROKERS:
        ids = [str(broker) for broker in sorted(run(client.metadata([])).brokers)]
        if name not in ids:
            raise CommandError(
                f"there is no broker {name}; there are {', '.join(ids)}, and {ALL_BROKERS} for"
                " what is set for all",
                EXIT_NOT_FOUND,
            )
    elif resource.type == "client-metrics" and not to_set:
        names = run(admin.configured_names(client, resource.number))
        if name not in names:
            raise CommandError(
                f"there is no client metrics subscription {name}; there are"
                f" {', '.join(names) or 'none'}: headrace config set client-metrics makes one",
                EXIT_NOT_FOUND,
            )
    return resource


def _resources(client: Client, types: Sequence[str] | dict[str, int]) -> list[_Resource]:
    found = []
    for type_ in types:
        if type_ == "topic":
            names = sorted(run(client.metadata()).topics)
        elif type_ == "broker":
            brokers = sorted(run(client.metadata([])).brokers)
            names = [ALL_BROKERS, *map(str, brokers)]
        else:
            names = run(admin.configured_names(client, _TYPES[type_]))
        found += [_Resource(type_, name) for name in names]
    return found


def _described(client: Client, resource: _Resource) -> list[ConfigEntry]:
    return run(admin.describe_configs(client, resource.number, resource.wire_name))


def _check_keys(resource: _Resource, keys: Sequence[str], known: Sequence[ConfigEntry]) -> None:
    """Raise UsageError for an unknown key, with the names most similar to it."""
    names = [entry.name for entry in known]
    for key in keys:
        if key in names:
            continue
        near = get_close_matches(key, names, n=3, cutoff=0.6)
        advice = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"see: headrace config list {resource} --all"
        )
        raise UsageError(f"a {resource.type} has no setting {key}; {advice}")


def _refuse_read_only(
    resource: _Resource, keys: Sequence[str], known: Sequence[ConfigEntry]
) -> None:
    """Raise CommandError for a key that cannot be altered at run time."""
    fixed = {entry.name for entry in known if entry.read_only}
    for key in keys:
        if key in fixed:
            raise CommandError(
                f"{key} of a {resource.type} cannot be changed while it runs; {_READ_ONLY_ADVICE}"
            )


def _shown(entry: ConfigEntry) -> str:
    if entry.sensitive:
        return "***"
    return "" if entry.value is None else entry.value


def _as_json(resource: _Resource, entries: Sequence[ConfigEntry]) -> dict[str, object]:
    return {
        **resource._asdict(),
        "configs": {
            entry.name: {
                "value": entry.value,
                "source": entry.source,
                "read_only": entry.read_only,
            }
            for entry in entries
        },
    }
