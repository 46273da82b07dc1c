"""Objects of a definitions document, as RabbitMQ 3.x and 4.x export them, and their JSON.

Names are checked where an object is declared; here only that a member has the type that it must
have. Members that RabbitMQ does not read are dropped: the `type` of a queue, say, whose type is the
argument `x-queue-type`. `json` of an object is what an export has.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.management.definitions.members import Json, Members

T = TypeVar("T")
_POLICY = ("pattern", "definition", "priority", "apply-to")
_METADATA = ("description", "tags", "default_queue_type", "protected_from_deletion")


class User(NamedTuple):
    """A user, with a password hash, a password, or neither."""

    name: str
    tags: tuple[str, ...] = ()
    limits: Mapping[str, int] = {}
    password_hash: str | None = None
    """In base64; empty: no password is valid."""
    hashing_algorithm: str | None = None
    """None: that of the document's version (`document.DefinitionsDocument.hashing_algorithm`)."""
    password: str | None = None

    def __repr__(self) -> str:
        return f"User(name={self.name!r}, tags={self.tags}, ***)"

    @classmethod
    def of(cls, members: Members) -> "User":
        """Return the user that an element describes."""
        password_hash = members.optional_text("password_hash")
        password = members.optional_text("password")
        if password is not None and password_hash is not None:
            raise members.refused("both password and password_hash are given")
        return cls(
            members.text("name"),
            members.tags(members.given(("tags",))),
            members.limits(),
            password_hash,
            members.optional_text("hashing_algorithm"),
            password,
        )

    @property
    def json(self) -> Json:
        """The user without what is None."""
        texts = {
            "password_hash": self.password_hash,
            "hashing_algorithm": self.hashing_algorithm,
            "password": self.password,
        }
        given = {name: text for name, text in texts.items() if text is not None}
        return {
            "name": self.name, **given, "tags": list(self.tags), "limits": dict(self.limits),
        }  # fmt: skip


class Vhost(NamedTuple):
    """A vhost."""

    name: str
    metadata: Mapping[str, object] = {}
    """Its description, tags, default queue type and protection from deletion, as far as given."""
    tracing: bool | None = None
    limits: Mapping[str, int] = {}

    @classmethod
    def of(cls, members: Members) -> "Vhost":
        """Return the vhost that an element describes: 3.x has no metadata, but their members."""
        within = members.table("metadata")
        metadata = {name: within[name] for name in _METADATA if name in within}
        metadata |= members.given(("description", "tags"))
        if "tags" in metadata:
            metadata["tags"] = list(members.tags(metadata))
        tracing = members.flag("tracing", False) if members.given(("tracing",)) else None
        return cls(members.text("name"), metadata, tracing, members.limits())

    @property
    def json(self) -> Json:
        """The vhost as 4.x exports it."""
        tracing = {} if self.tracing is None else {"tracing": self.tracing}
        return {"name": self.name, "metadata": self.metadata, "limits": self.limits, **tracing}


class Permission(NamedTuple):
    """A user's permissions in a vhost: three patterns."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str

    @classmethod
    def of(cls, members: Members) -> "Permission":
        """Return the permissions that an element describes."""
        patterns = [members.text(name) for name in ("configure", "write", "read")]
        return cls(members.text("user"), members.vhost(), *patterns)

    @property
    def json(self) -> Json:
        """The permissions as an export has them."""
        return self._asdict()


class TopicPermission(NamedTuple):
    """A user's permissions for routing keys of a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    @classmethod
    def of(cls, members: Members) -> "TopicPermission":
        """Return the permissions that an element describes."""
        patterns = [members.text(name) for name in ("exchange", "write", "read")]
        return cls(members.text("user"), members.vhost(), *patterns)

    @property
    def json(self) -> Json:
        """The permissions as an export has them."""
        return self._asdict()


class GlobalParameter(NamedTuple):
    """A parameter of the cluster."""

    name: str
    value: object

    @classmethod
    def of(cls, members: Members) -> "GlobalParameter":
        """Return the parameter that an element describes."""
        return cls(members.text("name"), members.value("value"))

    @property
    def json(self) -> Json:
        """The parameter as an export has it."""
        return self._asdict()


class Parameter(NamedTuple):
    """A parameter of a vhost: of a plugin, an operator policy, or the vhost's limits."""

    vhost: str
    component: str
    name: str
    value: object

    @classmethod
    def of(cls, members: Members) -> "Parameter":
        """Return the parameter that an element describes."""
        return cls(
            members.vhost(),
            members.text("component"),
            members.text("name"),
            members.value("value"),
        )

    @property
    def json(self) -> Json:
        """The parameter as an export has it."""
        return self._asdict()


class PolicyDefinition(NamedTuple):
    """A policy, whose value `queues.model.policies.policy.checked_policy` checks."""

    vhost: str
    name: str
    value: Json
    """Its pattern, definition, priority and `apply-to`, as far as given."""

    @classmethod
    def of(cls, members: Members) -> "PolicyDefinition":
        """Return the policy that an element describes."""
        return cls(members.vhost(), members.text("name"), members.given(_POLICY))

    @property
    def json(self) -> Json:
        """The policy as an export has it."""
        return {"vhost": self.vhost, "name": self.name, **self.value}


class Exchange(NamedTuple):
    """An exchange; those that users cannot declare (`amq.`) are in exports too."""

    vhost: str
    name: str
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = {}

    @classmethod
    def of(cls, members: Members) -> "Exchange":
        """Return the exchange that an element describes."""
        return cls(
            members.vhost(),
            members.text("name"),
            members.text("type"),
            members.flag("durable", True),
            members.flag("auto_delete", False),
            members.flag("internal", False),
            members.table("arguments"),
        )

    @property
    def json(self) -> Json:
        """The exchange as an export has it, and `internal` if it is."""
        members = self._asdict()
        if not self.internal:
            del members["internal"]
        return members


class Queue(NamedTuple):
    """A queue that is not exclusive."""

    vhost: str
    name: str
    durable: bool = True
    auto_delete: bool = False
    arguments: Mapping[str, object] = {}

    @classmethod
    def of(cls, members: Members) -> "Queue":
        """Return the queue that an element describes."""
        return cls(
            members.vhost(),
            members.text("name"),
            members.flag("durable", True),
            members.flag("auto_delete", False),
            members.table("arguments"),
        )

    @property
    def json(self) -> Json:
        """The queue as an export has it."""
        return {**self._asdict(), "type": self.arguments.get("x-queue-type", "classic")}


class Binding(NamedTuple):
    """A binding of a queue or an exchange to an exchange."""

    vhost: str
    source: str
    destination: str
    destination_type: str
    """`queue` or `exchange`."""
    routing_key: str
    arguments: Mapping[str, object] = {}

    @classmethod
    def of(cls, members: Members) -> "Binding":
        """Return the binding that an element describes."""
        destination_type = members.text("destination_type")
        if destination_type not in {"queue", "exchange"}:
            raise members.refused("destination_type is neither queue nor exchange")
        return cls(
            members.vhost(),
            members.text("source"),
            members.text("destination"),
            destination_type,
            members.text("routing_key"),
            members.table("arguments"),
        )

    @property
    def json(self) -> Json:
        """The binding as an export has it."""
        return self._asdict()


class Section(NamedTuple, Generic[T]):
    """An array of a definitions document, and its kind of objects."""

    key: str
    kind: str
    read: Callable[[Members], T]


USERS = Section("users", "user", User.of)
VHOSTS = Section("vhosts", "vhost", Vhost.of)
PERMISSIONS = Section("permissions", "permission", Permission.of)
EXCHANGES = Section("exchanges", "exchange", Exchange.of)
TOPIC_PERMISSIONS = Section("topic_permissions", "topic permission", TopicPermission.of)
GLOBAL_PARAMETERS = Section("global_parameters", "global parameter", GlobalParameter.of)
POLICIES = Section("policies", "policy", PolicyDefinition.of)
PARAMETERS = Section("parameters", "parameter", Parameter.of)
QUEUES = Section("queues", "queue", Queue.of)
BINDINGS = Section("bindings", "binding", Binding.of)
SECTIONS: tuple[Section[Any], ...] = (
    USERS, VHOSTS, PERMISSIONS, EXCHANGES, TOPIC_PERMISSIONS, GLOBAL_PARAMETERS, POLICIES,
    PARAMETERS, QUEUES, BINDINGS,
)  # fmt: skip
"""The sections of a whole document, in the order in which RabbitMQ imports them."""
VHOST_SECTIONS: tuple[Section[Any], ...] = (EXCHANGES, PARAMETERS, POLICIES, QUEUES, BINDINGS)
"""The sections that are imported into one vhost, in RabbitMQ's order."""
