"""The keys (JWKS) that OAUTHBEARER tokens are verified with: loaded on a thread and refreshed.

A file is checked for changes every 5 s; a URL is fetched every
`sasl.oauthbearer.jwks.endpoint.refresh.ms`, and with growing pauses after a failure.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from headrace.config.authentication.oauthbearer import OAuthBearerListener
from headrace.config.broker import BrokerConfig
from headrace.config.installing import install_command
from headrace.config.tls_settings import Store
from headrace.model.errors import ConfigError
from headrace.posix import jwks
from headrace.posix.threads import Crew
from headrace.posix.tls import stamp

if TYPE_CHECKING:
    from headrace.ports.clock import Clock, Timer
    from headrace.security.sasl.jwk import Keys
    from headrace.security.sasl.token_verifier import TokenVerifier

log = logging.getLogger(__name__)

FILE_CHECK_SECONDS = 5.0
"""Seconds between two checks of a JWKS file for a change."""
_Stamp = tuple[int, ...] | None
"""A file's identity, size and times; None if it is a URL or cannot be examined."""


class KeySource:
    """Loads one listener's JWKS and gives it to the token verifier. Used on the event loop."""

    def __init__(self, name: str, verifier: "TokenVerifier", settings: OAuthBearerListener,
                 clock: "Clock", crew: Crew) -> None:  # fmt: skip
        self._name = name
        self._verifier = verifier
        self._settings = settings
        self._clock = clock
        self._crew = crew
        self._stamp: _Stamp = None
        """The file's stamp when it was last read, successfully or not."""
        self._failed = 0
        self._begun_at = 0.0
        self._reading = False
        self._closed = False
        self._timer: Timer | None = None
        self.asked = asyncio.get_running_loop().create_future()
        """Done when the first attempt to load the keys has ended, successfully or not."""
        verifier.key_missed = self._missed
        self.read(anew=True)

    def read(self, *, anew: bool) -> None:
        """Load the keys on the thread; unless forced, read a file only if it has changed.

        Does nothing while another load is running.
        """
        if self._closed or self._reading:
            return
        self._reading, self._begun_at = True, self._clock.monotonic()
        if self._timer is not None:
            self._timer.cancel()
        before = None if anew else (self._stamp,)
        self._crew.submit(partial(_read, self._settings, before), self._took, flush=False)

    def close(self) -> None:
        """Stop loading the keys of one listener."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _missed(self) -> None:
        """Load the keys now, as a token named an unknown key id.

        Not sooner than `sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms` after the last load
        began.
        """
        period = self._settings.retry_backoff_max_ms / 1000
        if self._clock.monotonic() - self._begun_at >= period:
            self.read(anew=False)

    def _took(self, outcome: "_Outcome | BaseException") -> None:
        self._reading = False
        if self._closed:
            return
        if isinstance(outcome, BaseException):
            log.error(
                "unexpected error while loading the keys of OAUTHBEARER tokens; the current keys"
                " stay in use. Report it with this traceback", exc_info=outcome,
            )  # fmt: skip
            self._failed += 1
        else:
            self._stamp, found = outcome
            self._take(found)
        self._timer = self._clock.call_later(self._wait_seconds(), partial(self.read, anew=False))
        if not self.asked.done():
            self.asked.set_result(None)

    def _take(self, found: "Keys | str | None") -> None:
        if found is None:
            return  # the file has not changed
        if isinstance(found, str):
            self._failed += 1
            if self._failed == 1:
                log.error(
                    "listener %s %s: cannot load sasl.oauthbearer.jwks.endpoint.url=%s: %s;"
                    " retrying",
                    self._name,
                    "keeps the OAUTHBEARER keys loaded before"
                    if self._verifier.keys
                    else "refuses all OAUTHBEARER tokens",
                    self._settings.jwks_url.partition("?")[0],
                    found,
                )
            return
        if self._failed or found.keys() != self._verifier.keys.keys():
            log.info("listener %s: loaded %d keys for OAUTHBEARER tokens", self._name, len(found))
        self._failed, self._verifier.keys = 0, found

    def _wait_seconds(self) -> float:
        settings = self._settings
        if settings.jwks_file is not None:
            return FILE_CHECK_SECONDS
        if not self._failed:
            return settings.refresh_ms / 1000
        # 2 ** 22 times the shortest wait exceeds the longest that can be configured.
        wait_ms = settings.retry_backoff_ms * (1 << min(self._failed - 1, 22))
        return min(wait_ms, settings.retry_backoff_max_ms) / 1000


_Outcome = tuple[_Stamp, "Keys | str | None"]
"""A file's stamp, and the keys, or the reason of a failure, or None for an unchanged file."""


def _read(settings: OAuthBearerListener, before: "tuple[_Stamp] | None") -> _Outcome:
    """Load the keys of a file or URL, on the thread; failures are returned as text.

    `before`: the file's last stamp, in a tuple: an equal one is not read again. None: always read.
    """
    from headrace.security.sasl.jwk import JWKS_BYTES_MAX, parse_jwks

    path = settings.jwks_file
    now: _Stamp = None
    try:
        if path is None:
            return None, parse_jwks(jwks.fetch(settings.jwks_url, JWKS_BYTES_MAX))
        now = stamp(Store(None, path, None))
        if before == (now,) and now is not None:
            return now, None
        return now, parse_jwks(jwks.read_file(path, JWKS_BYTES_MAX))
    except jwks.JwksUnavailable as problem:
        return now, str(problem)
    except ValueError as problem:
        return now, f"what is there {problem}"


class TokenKeys:
    """The JWKS sources of all OAUTHBEARER listeners. Used on the event loop."""

    def __init__(
        self, config: BrokerConfig, clock: "Clock", verifiers: dict[str, "TokenVerifier"]
    ) -> None:
        """Begin to load the keys, and add a verifier per listener to `verifiers`.

        ConfigError: the library `cryptography` is not installed.
        """
        try:
            from headrace.security.sasl.token_verifier import TokenVerifier
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "cryptography":
                raise
            raise ConfigError(
                "sasl.enabled.mechanisms=OAUTHBEARER: needs a library that is not installed:"
                f" {install_command('cryptography')}"
            ) from None
        self._crew = Crew("jwks", asyncio.get_running_loop(), 1)
        self._sources: list[KeySource] = []
        for name, listener in config.sasl.items():
            if listener.oauthbearer is not None:
                verifiers[name] = TokenVerifier(listener.oauthbearer, clock.wall_ms)
                self._sources.append(
                    KeySource(name, verifiers[name], listener.oauthbearer, clock, self._crew)
                )

    async def asked(self) -> None:
        """Return when the first attempt of every source has ended, within a bounded time.

        Connections are accepted after that, so that the first tokens are not refused for missing
        keys.
        """
        await asyncio.gather(*(source.asked for source in self._sources))

    def close(self) -> None:
        """Stop loading keys; a running fetch is not waited for."""
        for source in self._sources:
            source.close()
        self._crew.leave()  # not joined: a fetch may take seconds
