"""ListTransactions (key 66, v0-v2): list the transactions that this broker coordinates (KIP-664).

v1 a filter by duration · v2 a filter by transactional id (an RE2 expression)
"""

from headrace.coordination.transactions.describe import Filter
from headrace.frontends.kafka.authentication.authorisation import DESCRIBE_TRANSACTION, refused
from headrace.frontends.kafka.connection.handler import RequestContext
from headrace.frontends.kafka.connection.response_entities import Entity, maker
from headrace.model import regex
from headrace.model.errors import ApiError, ErrorCode


def handle(context: RequestContext, request: Entity) -> Entity:
    """Answer ListTransactions with the matching transactions that the client may see.

    COORDINATOR_LOAD_IN_PROGRESS while a partition of the coordinator is being loaded.
    """
    make = maker(context)
    unknown: tuple[str, ...] = ()
    try:
        wanted = _filter(request)
        unknown = tuple(wanted.unknown)
        listed = context.coordinators.transactions.list_transactions(wanted)
        error = ErrorCode.NONE
    except ApiError as problem:
        listed, error = [], problem.code
    hidden = refused(
        context, DESCRIBE_TRANSACTION, (found.transactional_id for found in listed), told=False
    )
    states = tuple(
        make(
            "TransactionState",
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.status,
        )
        for transaction in listed
        if transaction.transactional_id not in hidden
    )
    return make(
        None,
        error_code=error,
        unknown_state_filters=unknown,
        transaction_states=states,
    )


def _filter(request: Entity) -> Filter:
    """Return the filter of a request; raise ApiError INVALID_REGULAR_EXPRESSION."""
    asked = (
        request.state_filters,
        request.producer_id_filters,
        getattr(request, "duration_filter", -1),
    )
    pattern = getattr(request, "transactional_id_pattern", None)
    if not pattern:
        return Filter.of(*asked)
    return Filter.of(*asked, regex.matcher(pattern, "TransactionalIdPattern"))
