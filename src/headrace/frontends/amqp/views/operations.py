"""The operations that return views of the objects of virtual hosts."""

from typing import TYPE_CHECKING, Any

from headrace.frontends.amqp.views.bindings import BindingViews
from headrace.frontends.amqp.views.exchanges import ExchangeViews
from headrace.frontends.amqp.views.policies import PolicyViews
from headrace.frontends.amqp.views.queues import QueueViews
from headrace.operations.views import ViewBindings, ViewExchanges, ViewPolicies, ViewQueues

if TYPE_CHECKING:
    from headrace.frontends.amqp.queue_broker import QueueBroker
    from headrace.frontends.amqp.queue_members import QueueMembers
    from headrace.operations.arguments import Arguments
    from headrace.operations.permissions import Caller
    from headrace.operations.registry import Do


def views_of(queues: "QueueBroker", members: "QueueMembers") -> "dict[type[Arguments[Any]], Do]":
    """Return the operations by the type of their arguments."""

    def do(view: object) -> "Do":
        async def viewed(caller: "Caller", asked: object) -> object:
            return view

        return viewed

    policies = {each: PolicyViews(queues, operators=each) for each in (False, True)}

    async def policies_viewed(caller: "Caller", asked: ViewPolicies) -> PolicyViews:
        return policies[asked.operators]

    return {
        ViewPolicies: policies_viewed,
        ViewQueues: do(QueueViews(queues, members)),
        ViewExchanges: do(ExchangeViews(queues)),
        ViewBindings: do(BindingViews(queues)),
    }
