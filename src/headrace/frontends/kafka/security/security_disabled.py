"""How a broker without authentication and authorisation answers who would administer them.

As Kafka does on a PLAINTEXT listener without authorizer: administrators' tools show these errors.
"""

from datetime import UTC, datetime

from headrace.model.errors import ApiError, ErrorCode

NO_AUTHORIZER = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker.")
NO_TOKENS = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
"""Tokens are given to who has authenticated, and nobody does so here (KIP-48)."""
NO_TIME = datetime.fromtimestamp(0, UTC)
"""Of a token that there is none of. -1 at Kafka, which kio could not read back."""
