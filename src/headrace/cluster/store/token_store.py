"""`TokenStore`: delegation tokens in the store, a node each, and notices of changes.

As in Kafka 3.9 with ZooKeeper: JSON of version 3, principals escaped like node names, and no HMAC,
which brokers compute.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable
from contextlib import suppress

from headrace.cluster.store.changed_node import KEEP, Unchanged, change_node
from headrace.cluster.store.znodes import NONSENSE, BadPayload, quote_entity, unquote_entity
from headrace.ports.store import Create, Node, NodeExists, Store
from headrace.security.identity import Principal
from headrace.security.sasl.delegation_tokens import DelegationToken

_logger = logging.getLogger(__name__)

TOKENS = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
NOTICE = f"{CHANGES}/token_change_"
"""Prefix of the paths of notices."""
_VERSION = 3
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")

Change = Callable[[DelegationToken | None], DelegationToken | None]
"""From a token (None: it does not exist) to the new token; None: delete it."""


def path_of(token_id: str) -> str:
    """Return the path of a token's node."""
    return f"{TOKENS}/{token_id}"


def encode_token(token: DelegationToken) -> bytes:
    """Encode a token's node."""
    payload = {
        "version": _VERSION,
        "owner": quote_entity(str(token.owner)),
        "tokenRequester": quote_entity(str(token.requester)),
        "renewers": [quote_entity(str(renewer)) for renewer in token.renewers],
        "issueTimestamp": token.issued_ms,
        "maxTimestamp": token.max_ms,
        "expiryTimestamp": token.expires_ms,
        "tokenId": token.token_id,
    }
    return json.dumps(payload, separators=(",", ":")).encode()


def decode_token(path: str, value: bytes) -> DelegationToken:
    """Decode a token's node of version 1 to 3. Raises BadPayload."""
    try:
        payload = json.loads(value)
        version = payload["version"]
        if not 1 <= version <= _VERSION:
            raise ValueError("its version is not known")
        owner = _principal(payload["owner"])
        token_id = str(payload["tokenId"])
        if path != path_of(token_id):
            raise ValueError("it is the token of another node")
        return DelegationToken(
            token_id,
            owner,
            _principal(payload["tokenRequester"]) if version >= _VERSION else owner,
            tuple(_principal(renewer) for renewer in payload["renewers"]),
            int(payload["issueTimestamp"]),
            int(payload["expiryTimestamp"]),
            int(payload["maxTimestamp"]),
        )
    except NONSENSE as error:
        raise BadPayload(f"{path}: {error!r} in {value[:200]!r}") from error


def decode_notice(value: bytes) -> str | None:
    """Return the id of the token that a notice names; None: it is malformed."""
    text = value.decode("ascii", "replace")
    return text if _ID.fullmatch(text) else None


def _principal(text: str) -> Principal:
    kind, separator, name = unquote_entity(text).partition(":")
    if not (kind and separator and name):
        raise ValueError(f"{text!r} is no principal")
    return Principal(kind, name)


class TokenStore:
    """The delegation tokens in the store: the tree `/delegation_token`."""

    def __init__(self, store: Store) -> None:
        """Create the access to tokens in an open store."""
        self.store = store

    async def prepare(self) -> None:
        """Create the parent nodes of tokens and of their notices in the store, if missing."""
        for path in ("/delegation_token", TOKENS, CHANGES):
            with suppress(NodeExists):
                await self.store.create(path, b"")

    async def all(self) -> dict[str, DelegationToken | None]:
        """Return all tokens by id, as `of`. The paths exist."""
        return await self.of(await self.store.children(TOKENS))

    async def of(self, token_ids: Iterable[str]) -> dict[str, DelegationToken | None]:
        """Return tokens by id; None: it does not exist, or its malformed node was logged."""
        paths = {token_id: path_of(token_id) for token_id in token_ids}
        nodes = await self.store.get_all(list(paths.values()))
        return {
            token_id: _readable(path, node)
            for (token_id, path), node in zip(paths.items(), nodes, strict=True)
        }

    async def change(self, token_id: str, change: Change) -> DelegationToken | None:
        """Write the result of `change` as a token, with a notice for all brokers; return the token.

        Repeated on the new node if another broker was faster. BadVersion: it kept being faster.
        BadPayload: the node is malformed, and stays.
        """
        path = path_of(token_id)
        wanted: DelegationToken | None = None

        def changed(value: bytes | None) -> bytes | Unchanged | None:
            nonlocal wanted
            before = None if value is None else decode_token(path, value)
            wanted = change(before)
            if wanted == before:
                return KEEP
            return None if wanted is None else encode_token(wanted)

        notice = Create(NOTICE, token_id.encode(), sequential=True)
        await change_node(self.store, path, changed, notice)
        return wanted


def _readable(path: str, node: Node | None) -> DelegationToken | None:
    if node is None:
        return None
    try:
        return decode_token(path, node.value)
    except BadPayload as error:
        _logger.error(
            "a delegation token is ignored, nobody is let in by it: delete its node: %s", error
        )
        return None
