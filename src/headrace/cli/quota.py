"""`headrace quota`: quotas of users, client ids and IP addresses."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

from cyclopts import App, Parameter

from headrace.client.admin.quotas import Quota, alter_quotas, describe_quotas
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json, pairs
from headrace.terminal.failure import CommandError, UsageError
from headrace.terminal.output import print_json, print_line, print_list

app = App(name="quota", help="List, set and delete quotas of users, clients and addresses.")

DEFAULT = "<default>"
"""Shown in place of a name for the default of an entity type."""
_OF_CLIENTS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
_OF_ADDRESSES = ("connection_creation_rate",)


@Parameter(name="*")
@dataclass(frozen=True)
class EntityOptions:
    """Options that name the entity of a quota."""

    user: Annotated[str | None, Parameter(help="Of this user.")] = None
    client_id: Annotated[str | None, Parameter(help="Of clients that call themselves so.")] = None
    ip: Annotated[str | None, Parameter(help="Of this address; alone, without the others.")] = None
    default: Annotated[
        tuple[str, ...],
        Parameter(help="Of all of a type without their own: user, client-id or ip."),
    ] = ()

    def entity(self) -> dict[str, str | None]:
        """Return the entity as names by type; None for a type's default. Raises UsageError."""
        given = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        entity = {kind: name for kind, name in given.items() if name is not None}
        for kind in self.default:
            if kind not in given:
                raise UsageError(f"--default {kind}: must be user, client-id or ip")
            if kind in entity:
                raise UsageError(f"--default {kind}: --{kind} names one already")
        if "ip" in {*entity, *self.default} and len({*entity, *self.default}) > 1:
            raise UsageError("--ip goes with no user and no client-id")
        return {**entity, **dict.fromkeys(self.default)}


@app.command(name="list", alias=["ls", "describe"])
def list_(
    *,
    of: EntityOptions = EntityOptions(),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List the quotas that are set: all, or those of one user, client or address.

    For example: headrace quota list; headrace quota list --user alice
    """
    wanted = of.entity()
    with cluster.client() as client:
        found = [
            quota
            for quota in run(describe_quotas(client))
            if wanted.items() <= quota.entity.items()
        ]
    found.sort(key=_words)
    print_list(
        [{"entity": quota.entity, "quotas": quota.limits} for quota in found],
        ["OF", "QUOTA", "VALUE"],
        (
            [_words(quota), key, f"{value:g}"]
            for quota in found
            for key, value in sorted(quota.limits.items())
        ),
        none="no quotas are set",
        json=json,
    )


def _words(quota: Quota) -> str:
    return _entity_words(quota.entity)


def _entity_words(entity: dict[str, str | None]) -> str:
    return ", ".join(
        f"{kind} {DEFAULT if name is None else name}" for kind, name in sorted(entity.items())
    )


@app.command(name="set", alias="alter")
def set_(
    *settings: Annotated[str, Parameter(help="quota=value, any number.")],
    of: EntityOptions = EntityOptions(),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Set quotas of a user, a client, both together, or an address; at once.

    producer_byte_rate and consumer_byte_rate are bytes per second, request_percentage is of one
    thread, controller_mutation_rate partitions per second, connection_creation_rate (of an address)
    connections per second. For example: headrace quota set producer_byte_rate=1048576 --user alice
    """
    entity = _needed(of)
    limits = {key: _limit(key, value) for key, value in pairs("quota=value", settings).items()}
    if not limits:
        raise UsageError("nothing to set: give quota=value")
    _check_keys(entity, tuple(limits))
    with cluster.client() as client:
        run(alter_quotas(client, entity, limits))
    if json:
        print_json({"entity": entity, "set": limits, "deleted": []})
        return
    for key, limit in limits.items():
        print_line(f"{_entity_words(entity)}: {key}={limit:g}")


@app.command(alias="rm")
def delete(
    *keys: Annotated[str, Parameter(help="Which quotas; all of the entity without any.")],
    of: EntityOptions = EntityOptions(),
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Take quotas back.

    For example: headrace quota delete producer_byte_rate --user alice; headrace quota delete
    --default client-id
    """
    entity = _needed(of)
    _check_keys(entity, keys)
    with cluster.client() as client:
        there = [
            key
            for quota in run(describe_quotas(client))
            if quota.entity == entity
            for key in sorted(quota.limits)
        ]
        deleted = [key for key in there if not keys or key in keys]
        if not deleted:
            raise CommandError(
                f"no such quota is set for {_entity_words(entity)}; see: headrace quota list"
            )
        run(alter_quotas(client, entity, {}, deleted))
    if json:
        print_json({"entity": entity, "set": {}, "deleted": deleted})
        return
    for key in deleted:
        print_line(f"{_entity_words(entity)}: {key} is not limited any more")


def _needed(of: EntityOptions) -> dict[str, str | None]:
    entity = of.entity()
    if not entity:
        raise UsageError("say whose: --user, --client-id, --ip or --default")
    return entity


def _limit(key: str, text: str) -> float:
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not 0 < limit < float("inf"):
        raise UsageError(f"{key}={text}: must be a number above 0")
    return limit


def _check_keys(entity: dict[str, str | None], keys: tuple[str, ...]) -> None:
    known = _OF_ADDRESSES if "ip" in entity else _OF_CLIENTS
    for key in keys:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise UsageError(f"{_entity_words(entity)} has no quota {key}; {advice}")
