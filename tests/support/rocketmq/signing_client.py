"""A RocketMQ client with an access key."""

import ssl
from collections.abc import Mapping

from headrace.frontends.rocketmq.signed_requests import ACCESS_KEY, SIGNATURE, signature_of
from headrace.model.secret import Secret
from headrace.wire.rocketmq.commands import RemotingCommand
from headrace.wire.rocketmq.frames import Serialization
from tests.support.rocketmq.client import RemotingClient


class SigningClient(RemotingClient):
    """A client that signs its requests; `change` alters a request after it was signed."""

    def __init__(
        self,
        port: int,
        key: str,
        secret: str,
        *,
        changed: Mapping[str, str] | None = None,
        cut: str = "",
        appended: bytes = b"",
        serialization: Serialization = Serialization.JSON,
        version: int = 513,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(port, serialization, version, tls)
        self._key, self._secret = key, Secret(secret)
        self._changed, self._cut, self._appended = changed or {}, cut, appended

    def ask(
        self,
        code: int,
        fields: Mapping[str, object] | None = None,
        body: bytes = b"",
        flag: int = 0,
    ) -> int:
        texts = {name: str(value) for name, value in (fields or {}).items()}
        texts[ACCESS_KEY] = self._key
        command = RemotingCommand(code, 0, flag, texts, body, version=self._version)
        texts[SIGNATURE] = signature_of(command, self._secret).decode()
        texts.update(self._changed)
        texts.pop(self._cut, None)
        return super().ask(code, texts, body + self._appended, flag)
