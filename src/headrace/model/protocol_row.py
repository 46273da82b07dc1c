"""The row of a protocol: its listeners, topics, commands and code (`protocols` has the rows)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class ListenerProtocol(NamedTuple):
    """A protocol as `listeners` and `listener.security.protocol.map` name it."""

    name: str
    default_port: int | None = None
    """Where the entry says none; None: each entry must say one."""
    scheme: str = ""
    """Of its addresses in messages to clients; empty: they are written host:port."""
    tls: bool = False
    tls_mode: str = ""
    """The setting that decides about TLS instead: disabled, permissive (clients with and without
    TLS, if a certificate is set) or enforcing; empty: `tls` decides."""
    sasl: bool = False
    """Whether clients authenticate by Kafka's SASL, and `sasl.*` of the listener applies."""
    anonymous: bool = False
    """Whether clients have no identity: without rules, all may do everything where it listens."""
    certificate_by_listener: bool = False
    """Whether only the listener's own ssl.client.auth asks its clients for a certificate."""
    lacks: str = ""
    """The danger of a listener beyond loopback, and its remedy; empty: it may listen anywhere."""
    certificate_suffices: bool = False
    """Whether a listener that requires clients' certificates may listen anywhere."""
    signing_keys: str = ""
    """The setting with users' keys: if any is set, clients without a certificate sign each
    request, which counts as a certificate does. Empty: the protocol has no signatures."""
    tls_advice: str = ""
    """How to configure TLS in a client that connected without it."""
    places_apart: int = 0
    """Most connections of a listener that has places apart from those of all others; 0: it
    shares theirs."""


class ReservedTopics(NamedTuple):
    """The topics that a protocol keeps its data in, and what Kafka's clients may do to them.

    Kafka's clients see them as internal topics, and read and write them where an ACL names them,
    but for those that are closed.
    Creation, deletion and DeleteRecords are done by the protocol's `broker.reserved_topics`.
    """

    protocol: str
    """The name of its row."""
    prefix: str
    """The first characters of their names."""
    kept_for: str
    """The owner of a topic, with its article."""
    plural: str
    """All owners, in `headrace topic list`."""
    closed: frozenset[str] = frozenset()
    """Topics of them that clients neither read nor write, whatever ACLs say: the broker's own."""
    internal: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """The settings of topics with the broker's own state, by name: also of those that are adopted
    from a log directory after the metadata store was lost."""
    internal_partitions: int = 1
    """The number of partitions of each topic with the broker's own state."""
    create: str = ""
    """Why CreateTopics is refused: how to create the owner; empty: it is not."""
    partitions: str = ""
    """Why CreatePartitions is refused; empty: it is not."""
    configs: str = ""
    """Why AlterConfigs is refused; empty: it is not."""
    positions_copied: bool = False
    """Whether a replica that joins the ISR needs a copy of the settled positions; not if
    `closed`."""


class Command(NamedTuple):
    """The protocol's group of `headrace`."""

    name: str
    app: str
    help: str


class DevListener(NamedTuple):
    """The listener that each broker of `headrace dev` has for the protocol."""

    listener: str
    """The name of the listener protocol. Its default port and the next ones are used if all are
    free."""
    flag: str
    """The parameter that sets the first broker's port: `amqp_port` is --amqp-port."""
    help: str
    clients: str
    """Its clients, in the warning that a port is taken."""
    settings: Mapping[str, str]
    """Settings of the brokers, where the command does not give them."""


class ProtocolRow(NamedTuple):
    """A protocol: what a broker, its configuration and its command need to know of it."""

    name: str
    listeners: tuple[ListenerProtocol, ...]
    clients: str = ""
    """Its clients' usual name, in the help of `headrace`; empty: the row's name."""
    try_it: str = ""
    """The command that is displayed when a broker with a listener of it has started: `{headrace}`
    is the command, `{address}` the listener, `{where}` the options that name the broker."""
    topic_name: str = ""
    """A function that returns Kafka's name of a topic by its clients' name, or raises Malformed;
    empty: the names are the same."""
    frontend: str = ""
    """A module with `frontend(parts)`, which returns a `server.frontends.OtherFrontend`. Empty:
    Kafka's, which serves all other listeners."""
    needs: str = ""
    """The name of the row whose listener the broker must have, too: its frontend is the second
    argument of `frontend`. Empty: none."""
    first_bytes: str = ""
    """A `wire.first_bytes.FirstBytes`, by which its clients are known at a wrong port."""
    settings: str = ""
    """A `config.keys.row.Keys`, the broker's settings for it; empty: none."""
    listeners_help: str = ""
    """A sentence of the documentation of `listeners`."""
    stored: str = ""
    """A function `(configs, change, config)` that returns a `cluster.settings.stored_settings.
    StoredSettings`; empty: it keeps no settings below `/config` in the metadata store."""
    stored_kinds: tuple[str, ...] = ()
    """The names of their nodes below `/config`."""
    topics: ReservedTopics | None = None
    former_nodes: str = ""
    """The parent of nodes of the metadata store that earlier versions wrote, and that a start with
    a listener of the protocol moves to its topics; empty: there are none."""
    process_files: str = ""
    """The first characters of files in log directories that end with the process; empty: none."""
    certificate_users: str = ""
    """The setting that says which part of a certificate names the user; empty: Kafka's rules."""
    feature: str = ""
    """The feature that the registration of a broker with a listener of it has in a cluster: the
    protocol's topics are placed on such brokers only. Empty: no feature."""
    later_features: tuple[str, ...] = ()
    """Further features of such a broker, for data that earlier versions cannot read."""
    administered: bool = False
    """Whether administrators reach its operations by Kafka's API 20000 (`operations.registry`)."""
    command: Command | None = None
    more_commands: tuple[Command, ...] = ()
    dev: DevListener | None = None
    """None: `headrace dev` does not serve it unless it is asked to."""
