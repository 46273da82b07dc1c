"""Counts of RocketMQ requests and of the errors answered to them."""

from collections import Counter
from collections.abc import Mapping

from headrace.wire.rocketmq.codes import RequestCode, ResponseCode

OTHER = "other"
"""The label of codes that Headrace does not know: clients choose them freely."""
_EXPECTED = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
        ResponseCode.QUERY_NOT_FOUND,
    )
)
"""Codes of answers that are no errors."""


class RequestCounts:
    """Requests by code, and answered errors by codes of request and response."""

    def __init__(self) -> None:
        self.requests: Counter[int] = Counter()
        self.errors: Counter[tuple[int, int]] = Counter()

    def answered(self, request: int, response: int) -> None:
        """Count an answer, unless it is no error."""
        if response not in _EXPECTED:
            self.errors[request if request in _REQUESTS else -1, response] += 1

    def by_request(self) -> Mapping[str, float]:
        """Return the number of requests by the name of their code."""
        found: Counter[str] = Counter()
        for code, count in self.requests.items():
            found[_REQUESTS.get(code, OTHER)] += count
        return found

    def by_error(self) -> Mapping[tuple[str, ...], float]:
        """Return the number of errors by the names of request and response."""
        found: Counter[tuple[str, ...]] = Counter()
        for (request, response), count in self.errors.items():
            found[_REQUESTS.get(request, OTHER), _RESPONSES.get(response, OTHER)] += count
        return found


_REQUESTS = {code.value: code.name.lower() for code in RequestCode}
_RESPONSES = {code.value: code.name.lower() for code in ResponseCode}
