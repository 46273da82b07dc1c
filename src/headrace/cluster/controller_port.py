"""What the rest of a broker may ask of the cluster's controller, wherever that is.

Frontends know these protocols and not `Controller`, which answers them on the broker itself. What
may have to cross brokers is a coroutine; only what each broker knows of itself is answered at once.

* Topics are created and deleted by the controller alone. Clients that ask for it are to ask the
  broker that `is_controller`; the others refuse with NOT_CONTROLLER.
* What clients ask for without naming it (`auto_create`, `ensure_internal_topic`) any broker is
  asked: it is for the port to reach the controller.
* Settings and quotas are written to the store by whichever broker was asked, as in Kafka with
  ZooKeeper.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.broker.metadata_image import TopicInfo
from headrace.cluster.decisions.events import ElectionType
from headrace.cluster.settings.quota_settings import Alteration
from headrace.cluster.settings.stored_settings import StoredSettings
from headrace.cluster.settings.user_settings import Deletion, Upsertion
from headrace.cluster.topics.creation import NewTopic
from headrace.config.descriptions import Change, ConfigEntry
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.security.acl import AclBinding, AclFilter
from headrace.security.identity import Principal

if TYPE_CHECKING:
    from headrace.queues.permissions.definitions import (
        Definitions,
        UserDefinition,
        VhostDefinition,
    )
    from headrace.security.sasl.delegation_tokens import DelegationToken, DelegationTokens

Spend = Callable[[int], None]
"""Told how many partitions are about to be created or deleted; ApiError refuses (a quota).

Called on the broker that was asked, before anything is changed.
"""


def freely(partitions: int) -> None:
    """Count nothing: a `Spend` of who has no quota."""


class EntitySettingsPort(Protocol):
    """Settings of one kind of named things: of groups, or of client metrics subscriptions."""

    def names(self) -> list[str]:
        """Return the names of all that has settings, sorted."""

    def describe(self, name: str) -> list[ConfigEntry]:
        """Return all settings of `name`; ApiError."""

    async def alter(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        """Change the settings of `name`, or replace all (a mapping); ApiError."""


class QuotaSettingsPort(Protocol):
    """Quotas of users, clients and addresses."""

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Change quotas, each entity for itself; the outcomes in the same order."""


class AclSettingsPort(Protocol):
    """ACLs, as this broker knows them and has them written."""

    @property
    def enabled(self) -> bool:
        """Whether ACLs decide who may do what; if not, there is nothing else to ask."""

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the bindings that a filter asks for."""

    async def add(self, bindings: Sequence[AclBinding]) -> list[ApiError | None]:
        """Have these bindings too; the outcomes in the same order."""

    async def remove(self, filters: Sequence[AclFilter]) -> list[list[AclBinding] | ApiError]:
        """Remove what filters match; what each of them removed, in the same order."""


class UserSettingsPort(Protocol):
    """SCRAM credentials of users."""

    async def alter(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, ApiError | None]:
        """Change credentials, each user for itself; the outcome by user."""


class TokenSettingsPort(Protocol):
    """Delegation tokens, as this broker knows them and has them written."""

    @property
    def tokens(self) -> "DelegationTokens":
        """All there are."""

    async def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: tuple[Principal, ...],
        lifetime_ms: int,
    ) -> "DelegationToken":
        """Make a token; ApiError."""

    async def renew(self, by: Principal, hmac: bytes, period_ms: int) -> "DelegationToken":
        """Have a token hold longer; ApiError."""

    async def expire(self, by: Principal, hmac: bytes, period_ms: int) -> int:
        """Have a token end in `period_ms`, less than 0: now; returns when. ApiError."""


class VhostSettingsPort(StoredSettings, Protocol):
    """Vhosts and their users, as this broker knows them and has them written."""

    @property
    def definitions(self) -> "Definitions":
        """All there are."""

    async def change_vhost(
        self, name: str, change: "Callable[[VhostDefinition | None], VhostDefinition | None]"
    ) -> "VhostDefinition | None":
        """Write what `change` makes of a vhost, None: there is none; ApiError."""

    async def change_user(
        self, name: str, change: "Callable[[UserDefinition | None], UserDefinition | None]"
    ) -> "UserDefinition | None":
        """Write what `change` makes of a user, None: nothing is kept of him; ApiError."""


class SettingsPort(Protocol):
    """Settings, as this broker knows them and has them written."""

    @property
    def groups(self) -> EntitySettingsPort:
        """Those of groups."""

    @property
    def client_metrics(self) -> EntitySettingsPort:
        """Those of client metrics subscriptions."""

    @property
    def quotas(self) -> QuotaSettingsPort:
        """Quotas."""

    @property
    def acls(self) -> AclSettingsPort:
        """ACLs."""

    @property
    def users(self) -> UserSettingsPort:
        """SCRAM credentials."""

    @property
    def tokens(self) -> TokenSettingsPort | None:
        """Delegation tokens; None: there are none."""

    @property
    def stored(self) -> Mapping[str, StoredSettings]:
        """Settings of the other protocols that listeners speak, by the protocols' names."""

    def describe_topic(self, name: str) -> list[ConfigEntry]:
        """Return all settings of a topic; ApiError UNKNOWN_TOPIC_OR_PARTITION."""

    def describe_planned(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all settings that a topic with these overrides has or would have."""

    def describe_broker(self, name: str) -> list[ConfigEntry]:
        """Return all settings of this broker, or those altered for all of them (""); ApiError."""

    async def alter_topic(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        """Change a topic's own settings, or replace all (a mapping); ApiError."""

    async def alter_broker(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        """Change what this broker, or every broker (""), is told at run time; ApiError."""


class Reassigning(NamedTuple):
    """A partition on its way to other brokers; `replicas` are all, with those that come and go."""

    topic_partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


class ReplicasPort(Protocol):
    """Who leads and who holds partitions: only the controller decides it.

    All raise ApiError NOT_CONTROLLER on another broker.
    """

    async def elect(
        self, kind: ElectionType, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ApiError | None]:
        """Have the preferred replica lead, or with UNCLEAN any, where nobody else can."""

    async def reassign(
        self,
        asked: Mapping[TopicPartition, tuple[BrokerId, ...] | None],
        *,
        factor_may_change: bool = True,
    ) -> Mapping[TopicPartition, ApiError | None]:
        """Begin to move partitions to other brokers, or call such moves off (None)."""

    def reassigning(self) -> Sequence[Reassigning]:
        """Return the partitions that are on their way to other brokers."""


class ControllerPort(Protocol):
    """The cluster's controller, as one broker can reach it."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""

    def not_controller(self) -> ApiError | None:
        """Return why this broker is not the controller (NOT_CONTROLLER); None where it is."""

    @property
    def settings(self) -> SettingsPort:
        """Settings of topics, brokers, groups and clients."""

    @property
    def replicas(self) -> ReplicasPort:
        """Elections, and moves of partitions."""

    async def create_topics(
        self,
        wanted: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        spend: Spend = freely,
        wait_seconds: float = 0.0,
    ) -> list[TopicInfo | ApiError]:
        """Create topics, each for itself; the answers in the order asked.

        A created topic can be written to when this returns. NOT_CONTROLLER for each where another
        broker decides, REQUEST_TIMED_OUT where a leader has not answered: it is waited for until
        the controller goes on, and `wait_seconds` in all if that is more. Names must not repeat.
        """

    async def delete_topics(
        self, names: Sequence[str], *, spend: Spend = freely
    ) -> dict[str, ApiError | None]:
        """Delete topics, each for itself; NOT_CONTROLLER for each where another broker decides."""

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        spend: Spend = freely,
    ) -> None:
        """Grow topic `name` to `count` partitions in all; ApiError, NOT_CONTROLLER among them."""

    async def auto_create(
        self, names: Iterable[str], *, spend: Spend = freely
    ) -> dict[str, ApiError | None]:
        """Create topics that clients ask about; None: this broker's picture shows it now."""

    async def ensure_internal_topic(self, name: str) -> TopicInfo:
        """Create the internal topic where it is missing; this broker's picture shows it on return.

        ApiError.
        """

    async def next_producer_id(self) -> int:
        """Return a producer id that was never given before, in the whole cluster; ApiError."""
