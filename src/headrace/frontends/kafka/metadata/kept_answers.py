"""Cache of encoded Metadata answers, valid while the described topics do not change."""

from collections.abc import Iterable

from headrace.broker.metadata_image import ImageDelta
from headrace.security.identity import Principal

ANSWERS_MAX = 256
REQUEST_BYTES_MAX = 1024

Question = tuple[int, str, Principal, tuple[str, frozenset[str]] | None, int, bytes]
"""The key of a cached answer: a Metadata request with all that its answer depends on.

Version, listener, principal, host and tags (None if everything is allowed), version of the
authorizer's rules, and body.
"""


class KeptAnswers:
    """A cache of encoded Metadata answers by request, at most ANSWERS_MAX."""

    def __init__(self) -> None:
        """Start with an empty cache; `picture_changed` must be called for every change."""
        self._answers: dict[Question, bytes] = {}
        self._about: dict[str, set[Question]] = {}
        self.get = self._answers.get
        """Returns the cached answer to a request, or None."""

    def keep(self, question: Question, answer: bytes, topics: Iterable[str]) -> None:
        """Store the answer to a Metadata request, which describes exactly these existing topics.

        A request body over REQUEST_BYTES_MAX is not cached; a full cache is emptied first.
        """
        if len(question[-1]) > REQUEST_BYTES_MAX:
            return
        if len(self._answers) >= ANSWERS_MAX:
            self._forget_all()
        self._answers[question] = answer
        for name in topics:
            self._about.setdefault(name, set()).add(question)

    def picture_changed(self, delta: ImageDelta, structural: bool) -> None:
        """Drop cached answers about the topics in `delta`, or all if `structural`."""
        if structural:
            self._forget_all()
            return
        for name in (*delta.partitions, *(topic.name for topic in delta.topics)):
            for question in self._about.pop(name, ()):
                self._answers.pop(question, None)

    def _forget_all(self) -> None:
        self._answers.clear()
        self._about.clear()
