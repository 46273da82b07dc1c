"""Who is let in over AMQP, and what who is not learns of it."""

from base64 import b64encode
from typing import Any

import pytest

from headrace.model.secret import Secret
from headrace.queues.permissions.definitions import Definitions, UserDefinition
from headrace.security.identity import USER, Principal
from headrace.security.sasl.sasl import Mechanism
from headrace.security.sasl.scram import make_credential
from headrace.security.sasl.users import Users
from headrace.vhosts.users import logins as module
from headrace.vhosts.users.logins import Credentials, LoginRefused, Peer, UserLogins
from headrace.vhosts.users.rabbit_hash import stored_hash

LOCAL, AWAY = Peer("127.0.0.1", "AMQP"), Peer("192.0.2.1", "AMQP")
TEST12 = stored_hash(
    "rabbit_password_hashing_sha256", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
)
SCRAM = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


class Threads:
    """Does at once what a thread would."""

    def run(self, work: Any, done: Any) -> None:
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - as a thread hands it on
            outcome = error
        done(outcome)


class Door:
    """The logins of one broker, where `alice` has the password `secret`."""

    def __init__(self, *, guest: bool = False) -> None:
        self.users = Users()
        password = Secret("secret")
        self.users.put(
            "alice", {each: make_credential(each, password, b"salt", 4096) for each in SCRAM}
        )
        self.definitions = Definitions(guest=guest)
        self.failures: list[str] = []
        self.adopted: list[tuple[str, str]] = []
        disk: Any = Threads()
        self.logins = UserLogins(
            self.users,
            self.definitions,
            disk,
            self._failed,
            lambda user, password: self.adopted.append((user, password.reveal())),
            lambda principal: principal.name == "CN=root",
        )

    def _failed(self, host: str) -> float:
        self.failures.append(host)
        return 0.1 * len(self.failures)

    def ask(self, user: str, password: str | None, peer: Peer = AWAY) -> Any:
        """Return what a client is told who says he is `user`."""
        told: list[Any] = []
        secret = None if password is None else Secret(password)
        self.logins.authenticate(Credentials("PLAIN", user, secret), peer, told.append)
        (answer,) = told
        return answer


def test_a_user_of_the_broker_is_let_in_by_his_password() -> None:
    door = Door()
    assert door.ask("alice", "secret") == Principal(USER, "alice")
    assert door.failures == []


@pytest.mark.parametrize("mechanism", SCRAM)
def test_either_of_his_credentials_is_enough(mechanism: Mechanism) -> None:
    door = Door()
    door.users.put("alice", {mechanism: door.users.of("alice")[mechanism]})
    assert door.ask("alice", "secret") == Principal(USER, "alice")
    assert isinstance(door.ask("alice", "wrong"), LoginRefused)


def test_every_failure_is_counted_for_its_address_and_waits_longer() -> None:
    door = Door()
    assert door.ask("alice", "wrong") == LoginRefused("wrong password: 'alice'", 0.1)
    assert door.ask("nobody", "x") == LoginRefused("unknown user: 'nobody'", 0.2)
    assert door.failures == ["192.0.2.1"] * 2


def test_refused_guest_is_logged_with_the_setting_that_lets_it_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = Door().ask("guest", "guest", LOCAL)
    assert refused.reason == "unknown user: 'guest'"
    assert "amqp.guest=true" in caplog.text
    caplog.clear()
    Door().ask("nobody", "guest", LOCAL)
    Door().ask("alice", "wrong", LOCAL)
    assert caplog.text.count("authentication failed") == 2
    assert "amqp.guest" not in caplog.text


@pytest.mark.parametrize(
    ("user", "password"),
    [("alice", "secret"), ("alice", "wrong"), ("nobody", "x"), ("bob", "test12"), ("bob", "x"),
     ("guest", "guest"), ("guest", "x")],
)  # fmt: skip
def test_the_work_is_the_same_whoever_it_is(
    user: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[Mechanism, int]] = []

    def counted(mechanism: Mechanism, secret: Secret, salt: bytes, iterations: int) -> Any:
        done.append((mechanism, iterations))
        return make_credential(mechanism, secret, salt, iterations)

    door = Door(guest=True)
    door.definitions.put_user("bob", UserDefinition(password_hash=TEST12))
    monkeypatch.setattr(module, "make_credential", counted)
    door.ask(user, password, LOCAL)
    assert done == [(Mechanism.SCRAM_SHA_256, 4096)]


def test_what_an_unknown_users_password_is_compared_with_lets_nobody_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "make_credential", lambda *_: module._NOBODYS)
    assert isinstance(Door().ask("nobody", "x"), LoginRefused)


def test_rabbitmqs_hash_lets_in_and_is_to_become_a_credential() -> None:
    door = Door()
    door.definitions.put_user("bob", UserDefinition(password_hash=TEST12))
    assert isinstance(door.ask("bob", "test1"), LoginRefused)
    assert door.adopted == []
    assert door.ask("bob", "test12") == Principal(USER, "bob")
    assert door.adopted == [("bob", "test12")]


def test_who_has_a_credential_is_not_let_in_by_an_older_hash() -> None:
    door = Door()
    door.definitions.put_user("alice", UserDefinition(password_hash=TEST12))
    assert isinstance(door.ask("alice", "test12"), LoginRefused)
    assert door.ask("alice", "secret") == Principal(USER, "alice")
    assert door.adopted == []


def test_a_hash_that_is_none_lets_nobody_in() -> None:
    door = Door()
    wrong = f"rabbit_password_hashing_sha256:{b64encode(b'short').decode()}"
    door.definitions.put_user("bob", UserDefinition(password_hash=wrong))
    assert isinstance(door.ask("bob", ""), LoginRefused)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.8.8.8"])
def test_guest_comes_from_this_machine(host: str) -> None:
    door = Door(guest=True)
    assert door.ask("guest", "guest", Peer(host, "AMQP")) == Principal(USER, "guest")
    assert isinstance(door.ask("guest", "wrong", Peer(host, "AMQP")), LoginRefused)


@pytest.mark.parametrize("host", ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "local", ""])
def test_guest_comes_from_nowhere_else_whatever_his_password_is(host: str) -> None:
    door = Door(guest=True)
    refused = door.ask("guest", "guest", Peer(host, "AMQP"))
    assert refused.reason == "user 'guest' can only connect via localhost: 'guest'"
    # One that an operator made is no other.
    door.users.put("guest", door.users.of("alice"))
    refused = door.ask("guest", "secret", Peer(host, "AMQP"))
    assert refused.reason == "user 'guest' can only connect via localhost: 'guest'"


def test_there_is_no_guest_unless_it_was_said(caplog: pytest.LogCaptureFixture) -> None:
    assert Door().ask("guest", "guest", LOCAL).reason == "unknown user: 'guest'"
    assert caplog.text.count("amqp.guest=true lets it in from this machine") == 1
    Door().ask("nobody", "guest", LOCAL)
    assert caplog.text.count("amqp.guest=true") == 1


def test_a_certificate_lets_in_who_is_known() -> None:
    door = Door()
    door.definitions.put_user("CN=bob", UserDefinition())
    assert door.ask("alice", None) == Principal(USER, "alice")
    assert door.ask("CN=bob", None) == Principal(USER, "CN=bob")
    assert door.ask("CN=root", None) == Principal(USER, "CN=root")
    assert door.ask("CN=carol", None).reason == "unknown user: 'CN=carol'"


def test_a_certificate_makes_no_guest_of_another_machine() -> None:
    door = Door(guest=True)
    assert door.ask("guest", None, LOCAL) == Principal(USER, "guest")
    refused = door.ask("guest", None, AWAY)
    assert refused.reason == "user 'guest' can only connect via localhost: 'guest'"


def test_passwords_are_in_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()
    door.definitions.put_user("bob", UserDefinition(password_hash=TEST12))
    with caplog.at_level(0):
        for user in ("alice", "bob", "nobody"):
            door.ask(user, "planted-secret-9")
    assert caplog.text.count("authentication failed") == 3
    assert "planted-secret-9" not in caplog.text
    assert TEST12.partition(":")[2] not in caplog.text
