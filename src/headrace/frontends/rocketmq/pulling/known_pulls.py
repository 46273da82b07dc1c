"""`KnownPulls`: pulls of one connection in a known form, answered without decoding their JSON.

A consumer pulls from each of its queues again and again, with other offsets. The first pull is
decoded and checked by `pulls.pull`, and those that follow are not, as long as the settings,
the subscription and the topic are the same. All others go there, too: while clients have
permissions, of topics that do not exist, in other forms.
"""

from typing import TYPE_CHECKING, NamedTuple

from headrace.frontends.rocketmq.pulling.plans import PullPlan, plan_of, queue_of
from headrace.frontends.rocketmq.pulling.pulls import begin, store_pulled_offset
from headrace.model.errors import HeadraceError
from headrace.wire.rocketmq.codes import RequestCode
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.hot.pull_forms import PulledFields, PullForm, pull_form
from headrace.wire.rocketmq.pulled_messages import PulledQueue
from headrace.wire.rocketmq.requests import InvalidField, PullRequest, pull_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.frontends.rocketmq.call import RemotingCall
    from headrace.frontends.rocketmq.serving import ServedBroker

FORMS_MAX = 64
"""Forms of one connection: groups, topics, and versions of subscriptions."""
QUEUES_MAX = 1024
"""Queues of one form whose checks are kept; beyond it keeping starts again."""
_PULL = RequestCode.PULL_MESSAGE.value


class _KnownQueue(NamedTuple):
    """A queue that was pulled in a form."""

    plan: PullPlan
    queue: PulledQueue


class _KnownForm(NamedTuple):
    """A form, and the queues that were pulled in it."""

    form: PullForm
    request: PullRequest
    queues: dict[int, _KnownQueue]


class KnownPulls:
    """The known forms and queues of one connection."""

    __slots__ = ("_broker", "_known", "_new_call")

    def __init__(
        self, broker: "ServedBroker", new_call: "Callable[[RemotingCommand], RemotingCall]"
    ) -> None:
        """`new_call` adds a request to those of the connection that wait for answers."""
        self._broker = broker
        self._new_call = new_call
        self._known: list[_KnownForm] = []
        """The form that was used last comes first."""

    def learn(self, header: bytes, command: RemotingCommand) -> None:
        """Remember the form of a pull's header; the one not used for longest is forgotten.

        Signed requests have none: their signature differs. Neither have one-way requests.
        """
        form = None if command.flag else pull_form(header)
        if form is None or form.read(header) is None:
            return
        try:
            request = pull_request(command)
        except InvalidField:
            return  # its answer says so
        self._known.insert(0, _KnownForm(form, request, {}))
        del self._known[FORMS_MAX:]

    def take(self, header: bytes) -> bool:
        """Answer a pull now or later, and return True; return False if it is not known."""
        found = self._find(header)
        if found is None:
            return False
        known, fields = found
        queue = known.queues.get(fields.queue_id)
        if queue is not None and queue.plan.is_current(self._broker):
            call = self._called(fields)
            self._begin(call, queue, fields)
            return True
        return self._first_of_queue(known, fields)

    def _find(self, header: bytes) -> tuple[_KnownForm, PulledFields] | None:
        for place, known in enumerate(self._known):
            fields = known.form.read(header)
            if fields is not None:
                if place:
                    self._known.insert(0, self._known.pop(place))
                return known, fields
        return None

    def _first_of_queue(self, known: _KnownForm, fields: PulledFields) -> bool:
        """Check and answer a pull, unless its checks are not to be kept; then return False."""
        broker, queue_id = self._broker, fields.queue_id
        group = known.request.consumer_group
        if not broker.broker.authorizer.allows_all:
            return False
        try:
            topic = broker.topic(known.request.topic)
        except HeadraceError:
            return False
        numbers = broker.numbers.known(topic.info)
        if numbers is None:
            return False
        call = self._called(fields)
        try:
            broker.require_group(call.identity, group)
            broker.check_may_consume(group)
            plan = plan_of(call, known.request._replace(queue_id=queue_id), topic)
            queue = _KnownQueue(plan, queue_of(call, topic, queue_id, numbers[queue_id]))
        except HeadraceError as error:
            call.fail(error)
            return True
        if len(known.queues) >= QUEUES_MAX:
            known.queues.clear()
        known.queues[queue_id] = queue
        self._begin(call, queue, fields)
        return True

    def _called(self, fields: PulledFields) -> "RemotingCall":
        self._broker.counts.requests[_PULL] += 1
        return self._new_call(RemotingCommand(_PULL, fields.opaque))

    def _begin(self, call: "RemotingCall", known: _KnownQueue, fields: PulledFields) -> None:
        try:
            store_pulled_offset(self._broker, known.plan, fields.commit_offset)
            begin(call, known.plan, known.queue, fields.queue_offset)
        except HeadraceError as error:
            call.fail(error)
