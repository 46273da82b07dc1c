"""`ControllerPort`: the interface by which the rest of a broker uses the cluster's controller.

Frontends use these protocols; `Controller` implements them. Methods that may need another broker
are coroutines; those that read only this broker's own knowledge return at once.

* Only the controller creates and deletes topics for clients; other brokers refuse with
  NOT_CONTROLLER, and clients then ask the controller.
* Topics created implicitly (`auto_create`, `ensure_internal_topic`) may be requested of any
  broker, which reaches the controller by itself.
* Settings and quotas are written to the store by the broker that received the request, as in Kafka
  with ZooKeeper.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.broker.metadata_image import TopicInfo
from headrace.cluster.decisions.events import ElectionType
from headrace.cluster.settings.quota_settings import Alteration
from headrace.cluster.settings.stored_settings import StoredSettings
from headrace.cluster.settings.user_settings import Deletion, Upsertion
from headrace.cluster.topics.creation import NewTopic, Spend, freely
from headrace.config.descriptions import Change, ConfigEntry
from headrace.model.errors import ApiError
from headrace.model.nouns import BrokerId, TopicPartition
from headrace.security.acl import AclBinding, AclFilter
from headrace.security.identity import Principal

if TYPE_CHECKING:
    from headrace.security.sasl.delegation_tokens import DelegationToken, DelegationTokens


class EntitySettingsPort(Protocol):
    """Settings of one kind of named entities: groups, or client metrics subscriptions."""

    def names(self) -> list[str]:
        """Return the names of all entities with settings, sorted."""

    def describe(self, name: str) -> list[ConfigEntry]:
        """Return all settings of `name`. Raises ApiError."""

    async def alter(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        """Change the settings of `name`, or replace all (a mapping). Raises ApiError."""


class QuotaSettingsPort(Protocol):
    """Quotas of users, clients and addresses."""

    async def alter(
        self, alterations: Sequence[Alteration], *, validate_only: bool = False
    ) -> list[ApiError | None]:
        """Change quotas, each entity independently; return the outcomes in the same order."""


class AclSettingsPort(Protocol):
    """The ACLs that this broker knows, and changes of them in the store."""

    @property
    def enabled(self) -> bool:
        """Whether an authorizer uses ACLs; if not, there are no ACLs to read or change."""

    def matching(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the bindings that match a filter."""

    async def add(self, bindings: Sequence[AclBinding]) -> list[ApiError | None]:
        """Add bindings; return the outcomes in the same order."""

    async def remove(self, filters: Sequence[AclFilter]) -> list[list[AclBinding] | ApiError]:
        """Remove the bindings that match a filter; return for each filter what it removed."""


class UserSettingsPort(Protocol):
    """SCRAM credentials of users."""

    async def alter(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> dict[str, ApiError | None]:
        """Change credentials, each user independently; return the outcome by user."""


class TokenSettingsPort(Protocol):
    """The delegation tokens that this broker knows, and changes of them in the store."""

    @property
    def tokens(self) -> "DelegationTokens":
        """The delegation tokens that this broker knows."""

    async def create(
        self,
        owner: Principal,
        requester: Principal,
        renewers: tuple[Principal, ...],
        lifetime_ms: int,
    ) -> "DelegationToken":
        """Create a token. Raises ApiError."""

    async def renew(self, by: Principal, hmac: bytes, period_ms: int) -> "DelegationToken":
        """Renew a token for `period_ms`. Raises ApiError."""

    async def expire(self, by: Principal, hmac: bytes, period_ms: int) -> int:
        """Expire a token in `period_ms` (negative: now); return the time in ms since 1970.

        Raises ApiError.
        """


class SettingsPort(Protocol):
    """All settings that this broker knows, and changes of them in the store."""

    @property
    def groups(self) -> EntitySettingsPort:
        """Settings of groups."""

    @property
    def client_metrics(self) -> EntitySettingsPort:
        """Settings of client metrics subscriptions."""

    @property
    def quotas(self) -> QuotaSettingsPort:
        """Settings of client quotas."""

    @property
    def acls(self) -> AclSettingsPort:
        """The ACLs in the store."""

    @property
    def users(self) -> UserSettingsPort:
        """SCRAM credentials of users."""

    @property
    def tokens(self) -> TokenSettingsPort | None:
        """Delegation tokens; None: they are disabled."""

    @property
    def stored(self) -> Mapping[str, StoredSettings]:
        """Settings of other protocols with listeners, by the protocol's name."""

    def describe_topic(self, name: str) -> list[ConfigEntry]:
        """Return all settings of a topic; ApiError UNKNOWN_TOPIC_OR_PARTITION."""

    def describe_planned(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """Return all settings that a topic with these overrides has or would have."""

    def describe_broker(self, name: str) -> list[ConfigEntry]:
        """Return all settings of this broker, or those set for all brokers ("").

        Raises ApiError.
        """

    async def alter_topic(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        """Change a topic's own settings, or replace all (a mapping). Raises ApiError."""

    async def alter_broker(self, name: str, change: Change, *, validate_only: bool = False) -> None:
        """Change the run-time settings of this broker, or those of every broker ("").

        Raises ApiError.
        """


class Reassigning(NamedTuple):
    """A partition under reassignment; `replicas`: all, including those being added and removed."""

    topic_partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


class ReplicasPort(Protocol):
    """Elections and reassignments, which only the controller carries out.

    All methods raise ApiError NOT_CONTROLLER on another broker.
    """

    async def elect(
        self, kind: ElectionType, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ApiError | None]:
        """Elect the preferred replica, or with UNCLEAN any replica if no other can lead."""

    async def reassign(
        self,
        asked: Mapping[TopicPartition, tuple[BrokerId, ...] | None],
        *,
        factor_may_change: bool = True,
    ) -> Mapping[TopicPartition, ApiError | None]:
        """Begin to reassign partitions, or cancel running reassignments (None as the replicas)."""

    def reassigning(self) -> Sequence[Reassigning]:
        """Return the partitions under reassignment."""


class ControllerPort(Protocol):
    """The cluster's controller, as one broker reaches it."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""

    def not_controller(self) -> ApiError | None:
        """Return why this broker is not the controller (NOT_CONTROLLER); None: it is."""

    @property
    def settings(self) -> SettingsPort:
        """Settings of topics, brokers, groups and clients."""

    @property
    def replicas(self) -> ReplicasPort:
        """Elections and reassignments."""

    async def create_topics(
        self,
        wanted: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        spend: Spend = freely,
        wait_seconds: float = 0.0,
    ) -> list[TopicInfo | ApiError]:
        """Create topics, each independently; return the outcomes in the same order.

        A created topic accepts writes when this returns. NOT_CONTROLLER for each: another broker is
        the controller. REQUEST_TIMED_OUT: a leader has not answered until the controller's next
        decision, and for `wait_seconds` if that is longer. Names must not repeat.
        """

    async def delete_topics(
        self, names: Sequence[str], *, spend: Spend = freely
    ) -> dict[str, ApiError | None]:
        """Delete topics, each independently; NOT_CONTROLLER for each on another broker."""

    async def create_partitions(
        self,
        name: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None = None,
        *,
        validate_only: bool = False,
        spend: Spend = freely,
    ) -> None:
        """Add partitions to topic `name`, up to `count` in all.

        ApiError, NOT_CONTROLLER included.
        """

    async def auto_create(
        self, names: Iterable[str], *, spend: Spend = freely
    ) -> dict[str, ApiError | None]:
        """Create topics that clients asked about.

        None: this broker's metadata image has the topic.
        """

    async def ensure_internal_topic(self, name: str) -> TopicInfo:
        """Create the internal topic if it is missing; on return the metadata image has it.

        Raises ApiError.
        """

    async def next_producer_id(self) -> int:
        """Return a producer id that is unique in the cluster. Raises ApiError."""
