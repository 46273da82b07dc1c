"""Client quotas: rate limits of users and clients, and how long clients beyond them must wait.

Rates and waits are Kafka's (ClientQuotaManager, Rate, SampledStat): a rate is the amount counted in
the last `quota.window.num` windows over the time they span, at least all but one of them. A client
above its quota waits until its rate, with nothing added, is back at the quota.

    quota = quotas.of("ANONYMOUS", "client-1")
    seconds = quota.produced(bytes)        # 0.0: go on

While no quota is set, `quotas.active` is False and the hot paths skip this. Topic changes (KIP-599)
and new connections (KIP-612) are rare and always checked. For the deciding thread.
"""

import ipaddress
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.rates import Rate
from headrace.config.value_types import INT_MAX
from headrace.model.errors import ApiError, ErrorCode
from headrace.security.identity import LOCAL_LISTENER

if TYPE_CHECKING:
    from headrace.config.broker import BrokerConfig

BUCKETS_MAX = 10_000
"""Most users and clients with stored rates; the least recently seen are dropped."""


class QuotaKey(Enum):
    """The kinds of quotas, by Kafka's names."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTIONS = "connection_creation_rate"


class Entity(NamedTuple):
    """The target of a quota. None: any; "": the default for those without a quota of their own."""

    user: str | None = None
    client: str | None = None
    ip: str | None = None


DEFAULT = ""
Limits = Mapping[str, float]
"""Quotas by the names of `QuotaKey`."""


class Bucket:
    """A quota of a user, a client, or a client of a user: its limit and its measured rate."""

    __slots__ = ("_now", "_rate", "bound")

    def __init__(self, bound: float, rate: Rate, now: Callable[[], float]) -> None:
        """Make a bucket with limit `bound`; `now` returns monotonic seconds."""
        self.bound = bound
        self._rate = rate
        self._now = now

    def add(self, amount: float) -> float:
        """Count `amount`; return the seconds that the client must wait, usually 0.0."""
        now_ms = self._now() * 1000
        self._rate.add(amount, now_ms)
        per_second, span_ms = self._rate.measure(now_ms)
        if per_second <= self.bound:
            return 0.0
        if self.bound <= 0:
            return math.inf
        return (per_second - self.bound) / self.bound * span_ms / 1000

    @property
    def idle(self) -> bool:
        """Whether nothing was counted in the whole span."""
        return self._rate.measure(self._now() * 1000)[0] <= 0

    def take_back(self, amount: float) -> None:
        """Subtract `amount` again, as it was not sent after all."""
        self._rate.add(-amount, self._now() * 1000)


class Tokens:
    """A token bucket as Kafka's TokenBucket: `bound` permits a second, saved up for the span.

    The number of permits may be negative: the client is then above its quota.
    """

    __slots__ = ("_at", "_left", "_now", "_span_seconds", "bound")

    def __init__(self, span_seconds: float, now: Callable[[], float]) -> None:
        """Make an empty bucket; `now` returns monotonic seconds."""
        self.bound = 0.0
        self._span_seconds = span_seconds
        self._now = now
        self._left = 0.0
        self._at: float | None = None

    def left(self) -> float:
        """Return the number of permits now."""
        now, most = self._now(), self.bound * self._span_seconds
        if self._at is None:
            self._left = most
        else:
            self._left = min(most, self._left + self.bound * (now - self._at))
        self._at = now
        return self._left

    def take(self, permits: float) -> None:
        """Remove `permits`, below zero if necessary."""
        self._left = self.left() - permits

    def seconds_short(self) -> float:
        """Return the seconds until the number of permits is not negative."""
        return max(0.0, -self.left() / self.bound)


class Mutations:
    """The topic changes of one request within its client's quota (KIP-599).

    Strict (newer API versions): refused while permits are negative; the request that makes them so
    passes. Not strict: nothing is refused, the client only has to wait.
    """

    def __init__(self, tokens: Tokens | None, *, strict: bool) -> None:
        """Make the mutation quota of one request; `tokens` is None if no quota is set."""
        self._tokens = tokens
        self._strict = strict
        self._over = False

    def spend(self, partitions: int) -> None:
        """Spend tokens to create or delete `partitions`; ApiError THROTTLING_QUOTA_EXCEEDED."""
        tokens = self._tokens
        if tokens is None:
            return
        if self._strict and tokens.left() < 0:
            self._over = True
            raise ApiError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
            )
        tokens.take(partitions)
        if not self._strict and tokens.left() < 0:
            self._over = True

    def wait_seconds(self) -> float:
        """Return the seconds that the client must wait after the request; usually 0.0."""
        return self._tokens.seconds_short() if self._over and self._tokens is not None else 0.0


class ClientQuota:
    """The produce, fetch and request quotas of one client of one user; None: unlimited."""

    __slots__ = ("_burst_seconds", "_request_wait_max", "fetch", "produce", "request")

    def __init__(
        self,
        produce: Bucket | None,
        fetch: Bucket | None,
        request: Bucket | None,
        window_seconds: float,
        windows: int,
    ) -> None:
        self.produce = produce
        self.fetch = fetch
        self.request = request
        self._request_wait_max = window_seconds
        self._burst_seconds = window_seconds * max(windows - 1, 1)

    def produced(self, size: int) -> float:
        """Count a Produce request of `size` bytes; return the seconds to wait."""
        return 0.0 if self.produce is None else self.produce.add(size)

    def fetched(self, size: int) -> float:
        """Count `size` bytes; return 0.0. If they may not be sent yet: the seconds to wait."""
        if self.fetch is None:
            return 0.0
        first = self.fetch.idle
        wait = self.fetch.add(size)
        if wait and first:
            # A batch may exceed what a whole span allows. A client without traffic gets it, and the
            # next one waits; otherwise it would wait without end.
            return 0.0
        if wait:
            self.fetch.take_back(size)
        return wait

    def not_sent(self, size: int) -> None:
        """Subtract `size` bytes that `fetched` counted but that were not sent."""
        if self.fetch is not None:
            self.fetch.take_back(size)

    def fetch_bytes_max(self, wanted: int) -> int:
        """Return the most bytes of one Fetch response: the quota over the whole span."""
        if self.fetch is None:
            return wanted
        return min(wanted, int(self.fetch.bound * self._burst_seconds))

    def handled(self, seconds: float) -> float:
        """Count `seconds` of request handling time; return the seconds to wait."""
        if self.request is None:
            return 0.0
        return min(self.request.add(seconds * 100), self._request_wait_max)


class Quotas:
    """All quotas and the rates that they limit."""

    def __init__(
        self,
        now: Callable[[], float],
        windows: int,
        window_seconds: int,
        mutation_span_seconds: int = 11,
    ) -> None:
        """Make quotas without limits; `windows` windows of `window_seconds` make a rate.

        `now` returns monotonic seconds. `mutation_span_seconds`: how long permits for topic changes
        can be saved up.
        """
        self.limits: dict[Entity, dict[str, float]] = {}
        """The configured quotas. Changed by `put` only."""
        self.active = False
        """Whether a produce, fetch or request quota is set."""
        self.version = 0
        """Increases with every change, which makes earlier results of `of` outdated."""
        self.throttled = dict.fromkeys(QuotaKey, 0)
        """Number of waits imposed, by kind of quota."""
        self._now = now
        self._windows = windows
        self._window_seconds = window_seconds
        self._buckets: OrderedDict[tuple[QuotaKey, Entity], Bucket] = OrderedDict()
        self._mutating: OrderedDict[Entity, Tokens] = OrderedDict()
        self._mutation_span_seconds = float(mutation_span_seconds)
        self.connections_rate_max = INT_MAX
        """max.connection.creation.rate of all addresses together; INT_MAX: no limit."""
        self.listener_rates: Mapping[str, int] = {}
        """Connection rate limits of single listeners, by name."""
        self.spared_listeners: frozenset[str] = frozenset()
        """Listeners that the broker-wide connection rate does not limit."""
        self._connecting: dict[str, Bucket] = {}
        """Connection rates by listener; "": of all listeners."""
        self._addresses: dict[str, float] = {}
        """Connection quotas of IP addresses, in canonical form; "": of all others."""

    @classmethod
    def configured(cls, config: "BrokerConfig", now: Callable[[], float]) -> "Quotas":
        """Make quotas with the configured windows and without limits."""
        burst = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        quotas = cls(now, config.quota_window_num, config.quota_window_size_seconds, burst)
        quotas.reconfigure(config)
        return quotas

    def reconfigure(self, config: "BrokerConfig") -> None:
        """Apply new broker settings."""
        self.connections_rate_max = config.max_connection_creation_rate
        self.listener_rates = config.connection_limits.rates
        self.spared_listeners = config.connection_limits.for_brokers | {LOCAL_LISTENER}

    def put(self, entity: Entity, limits: Limits) -> None:
        """Replace the limits of `entity`."""
        if limits:
            self.limits[entity] = dict(limits)
        else:
            self.limits.pop(entity, None)
        self.version += 1
        bounding = {QuotaKey.PRODUCE.value, QuotaKey.FETCH.value, QuotaKey.REQUEST.value}
        self.active = any(bounding & limits.keys() for limits in self.limits.values())
        rates = {
            named.ip: limits[QuotaKey.CONNECTIONS.value]
            for named, limits in self.limits.items()
            if named.ip is not None and QuotaKey.CONNECTIONS.value in limits
        }
        self._addresses = {ip and _as_written(ip): rate for ip, rate in rates.items()}

    def of(self, user: str, client: str) -> ClientQuota:
        """Return the quotas of a client of a user; valid while `version` is unchanged."""
        return ClientQuota(
            self._bucket(QuotaKey.PRODUCE, user, client),
            self._bucket(QuotaKey.FETCH, user, client),
            self._bucket(QuotaKey.REQUEST, user, client),
            self._window_seconds,
            self._windows,
        )

    def mutations(self, user: str, client: str, *, strict: bool) -> Mutations:
        """Return the object that counts one request's topic changes against its client's quota."""
        found = self._bound(QuotaKey.MUTATION, user, client)
        if found is None:
            return Mutations(None, strict=strict)
        shared, bound = found
        tokens = self._mutating.get(shared)
        if tokens is None:
            tokens = self._mutating[shared] = Tokens(self._mutation_span_seconds, self._now)
            if len(self._mutating) > BUCKETS_MAX:
                self._mutating.popitem(last=False)
        else:
            self._mutating.move_to_end(shared)
        tokens.bound = bound
        return Mutations(tokens, strict=strict)

    def connecting(self, listener: str = "") -> float:
        """Count a new connection on `listener`; return the seconds until it is accepted.

        At most one window.
        """
        seconds = 0.0
        if listener not in self.spared_listeners:
            seconds = self._connecting_by("", self.connections_rate_max)
        seconds = max(
            seconds, self._connecting_by(listener, self.listener_rates.get(listener, INT_MAX))
        )
        if seconds > 0:
            self.throttled[QuotaKey.CONNECTIONS] += 1
        return min(seconds, float(self._window_seconds))

    def _connecting_by(self, listener: str, rate_max: int) -> float:
        if rate_max == INT_MAX:
            return 0.0
        bucket = self._connecting.get(listener)
        if bucket is None:
            rate = Rate(self._windows, self._window_seconds * 1000)
            bucket = self._connecting[listener] = Bucket(0.0, rate, self._now)
        bucket.bound = rate_max
        return bucket.add(1)

    def connected(self, address: str) -> float:
        """Count a connection from `address`; return 0.0 if it is within its quota.

        Otherwise return the seconds to leave it unread before it is closed; it is not counted then.
        """
        if not self._addresses:
            return 0.0
        bound = self._addresses.get(address, self._addresses.get(DEFAULT))
        if bound is None:
            return 0.0
        bucket = self._rated(QuotaKey.CONNECTIONS, Entity(ip=address), bound)
        seconds = bucket.add(1)
        if seconds <= 0:
            return 0.0
        bucket.take_back(1)
        self.throttled[QuotaKey.CONNECTIONS] += 1
        return min(seconds, float(self._window_seconds))

    def _bucket(self, key: QuotaKey, user: str, client: str) -> Bucket | None:
        found = self._bound(key, user, client)
        return None if found is None else self._rated(key, *found)

    def _bound(self, key: QuotaKey, user: str, client: str) -> tuple[Entity, float] | None:
        """Return the entity whose rate counts, and its limit; None if no quota applies."""
        for shared, named in _levels(user, client):
            limits = self.limits.get(named)
            if limits is not None and key.value in limits:
                return shared, limits[key.value]
        return None

    def _rated(self, key: QuotaKey, shared: Entity, bound: float) -> Bucket:
        found = self._buckets.get((key, shared))
        if found is None:
            rate = Rate(self._windows, self._window_seconds * 1000)
            found = self._buckets[key, shared] = Bucket(0.0, rate, self._now)
            if len(self._buckets) > BUCKETS_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end((key, shared))
        found.bound = bound  # earlier counts stay valid with a new limit
        return found


def _as_written(ip: str) -> str:
    """Return an IP address in canonical form, as sockets report it."""
    try:
        return str(ipaddress.ip_address(ip))
    except ValueError:
        return ip


def _levels(user: str, client: str) -> tuple[tuple[Entity, Entity], ...]:
    """Return (entity whose rate is measured, entity whose quota limits it), in Kafka's order.

    The first whose quota is set applies: the most specific come first.
    """
    both, whole_user, whole_client = Entity(user, client), Entity(user), Entity(client=client)
    return (
        (both, both),
        (both, Entity(user, DEFAULT)),
        (whole_user, whole_user),
        (both, Entity(DEFAULT, client)),
        (both, Entity(DEFAULT, DEFAULT)),
        (whole_user, Entity(DEFAULT)),
        (whole_client, whole_client),
        (whole_client, Entity(client=DEFAULT)),
    )
