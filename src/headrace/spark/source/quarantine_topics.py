"""The topics of a source's quarantine: made before they are needed, retry topics read too."""

from collections.abc import Collection
from dataclasses import replace

from headrace.client.calls.offsets import LATEST
from headrace.spark.errors import DataLossError
from headrace.spark.quarantine.topics import prepare_retry_topics, prepare_topics
from headrace.spark.source.cluster import Cluster, View
from headrace.spark.source.offsets import Ends
from headrace.spark.source.options import Options, Subscription


class QuarantineTopics:
    """Creates the topics of a source's quarantine; without one it does nothing."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._prepared: set[str] = set()
        self._subscription = options.subscription

    @property
    def subscription(self) -> Subscription:
        """The subscription, with retry topics once `prepare_retries` was called."""
        return self._subscription

    def prepare_retries(self, cluster: Cluster) -> None:
        """Create the retry topics once, if they are read. Raises SourceError."""
        quarantine, given = self._options.quarantine, self._options.subscription
        if quarantine is None or not quarantine.retry or self._subscription is not given:
            return
        cluster.look(given)  # A source topic that does not exist is the error.
        cluster.ask(prepare_retry_topics(cluster.client, quarantine, given.topics))
        topics = (*given.topics, *quarantine.retry_topics(given.topics))
        self._subscription = replace(given, topics=topics)

    def prepare(self, cluster: Cluster, view: View, topics: Collection[str]) -> None:
        """Create the quarantines of topics that were not read before. Raises SourceError."""
        quarantine = self._options.quarantine
        if quarantine is None:
            return
        new = sorted(set(topics) - self._retries() - self._prepared)
        partitions = {
            topic: len(view.topics[topic].partitions) for topic in new if topic in view.topics
        }
        if partitions:
            cluster.ask(prepare_topics(cluster.client, quarantine, partitions))
            self._prepared.update(partitions)

    def initial_offsets(self, cluster: Cluster, view: View) -> Ends:
        """Return the starting offsets of a first batch.

        Retry topics start at their end, unless `startingOffsets` names them: what they have was
        read by a query before.
        """
        given = self._options.starting.offsets
        named = set() if isinstance(given, int) else set(given)
        skipped = self._retries() - named
        own = [place for place in view.partitions() if place.topic not in skipped]
        others = [place for place in view.partitions() if place.topic in skipped]
        offsets = cluster.resolve(self._options.starting, own)
        return offsets | cluster.ends(others, LATEST) if others else offsets

    def first_offsets(self, offsets: Ends) -> Ends:
        """Return those of a query's starting offsets that its checkpoint stores; none without
        retry topics."""
        retries = self._retries()
        if not retries:
            return {}
        return {place: offset for place, offset in offsets.items() if place.topic not in retries}

    def refuse_unread_replays(self, before: Ends, added: Ends) -> None:
        """Raise DataLossError if replayed records were deleted before any query read them.

        `before`: offsets of the previous batch. `added`: where partitions begin that do not
        continue there. A checkpoint of an older release has no retry topics.
        """
        retries = self._retries()
        for place, offset in sorted(added.items()):
            if place.topic in retries and place not in before and offset > 0:
                raise DataLossError(
                    f"{place}: retention has deleted replayed records below offset {offset} before"
                    " the query read them"
                )

    def _retries(self) -> set[str]:
        return set(self._subscription.topics) - set(self._options.subscription.topics)
