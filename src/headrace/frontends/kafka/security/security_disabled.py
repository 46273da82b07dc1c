"""How a broker without an authorizer answers who would administer ACLs.

As Kafka does there: administrators' tools show this error.
"""

from headrace.model.errors import ApiError, ErrorCode

NO_AUTHORIZER = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker.")
