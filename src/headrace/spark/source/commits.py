"""Background commits of a query's offsets to its consumer group.

A thread commits the offsets shown last; a commit that a newer one overtakes is skipped.
"""

import logging
import threading
from contextlib import ExitStack

from headrace.spark.errors import SourceError
from headrace.spark.source.cluster import Cluster
from headrace.spark.source.offsets import Ends
from headrace.spark.source.options import Fetching

_log = logging.getLogger(__name__)

CLOSE_SECONDS_MAX = 5.0
"""How many seconds `close` waits for the last commit."""


class Commits:
    """Commits offsets of groups on one cluster in the background. Close it."""

    def __init__(self, bootstrap: str, fetching: Fetching) -> None:
        self._bootstrap = bootstrap
        self._fetching = fetching
        self._changed = threading.Condition()
        self._shown: dict[str, Ends] = {}
        self._closed = False
        self._thread: threading.Thread | None = None

    def show(self, group: str, ends: Ends) -> None:
        """Commit these offsets of a group soon; a failure is only logged."""
        with self._changed:
            if self._closed:
                return
            self._shown[group] = ends
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="headrace-commits", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Commit the offsets shown last and stop the thread, within CLOSE_SECONDS_MAX."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS_MAX)

    def _run(self) -> None:
        with ExitStack() as opened:
            cluster: Cluster | None = None
            while True:
                with self._changed:
                    while not self._shown and not self._closed:
                        self._changed.wait()
                    shown, self._shown = self._shown, {}
                if not shown:
                    return
                for group, ends in shown.items():
                    try:
                        # A cluster that could not be created, for example without its configFile,
                        # is tried again.
                        cluster = cluster or opened.enter_context(self._cluster())
                        cluster.commit(group, ends)
                    except SourceError as error:
                        _log.warning("cannot commit offsets of group %s: %s", group, error)

    def _cluster(self) -> Cluster:
        return Cluster(self._bootstrap, self._fetching)
