"""`headrace user`: users with SCRAM credentials."""

from typing import Annotated

from cyclopts import App, Parameter

from headrace.client.admin.users import (
    SALT_BYTES,
    User,
    delete_credential,
    describe_users,
    set_credential,
)
from headrace.client.client import Client
from headrace.client.sync import run
from headrace.model.secret import Secret
from headrace.security.sasl.sasl import Mechanism
from headrace.security.sasl.scram import HASHES, ITERATIONS_MAX, ITERATIONS_MIN, make_credential
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm_on_terminal
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.output import print_list, tell
from headrace.terminal.passwords import PasswordFile, password_of

app = App(name="user", help="Create, list, alter and delete users who authenticate by SCRAM.")

Mechanisms = Annotated[
    tuple[str, ...],
    Parameter(
        name="--mechanism",
        help="SCRAM-SHA-256 or SCRAM-SHA-512; may be given twice. Both by default.",
    ),
]
Iterations = Annotated[
    int,
    Parameter(
        name="--iterations",
        help=f"Rounds of the hash, {ITERATIONS_MIN} to {ITERATIONS_MAX}.",
        show_default=True,
    ),
]


@app.command(name="list", alias=["ls", "describe"])
def list_(
    *,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """List the users that there are, with their mechanisms and rounds.

    For example: headrace user list
    """
    with cluster.client() as client:
        users = run(describe_users(client))
    print_list(
        [_as_json(user) for user in users],
        ["USER", "MECHANISM", "ITERATIONS"],
        (
            [user.name, mechanism, str(iterations)]
            for user in users
            for mechanism, iterations in sorted(user.credentials.items())
        ),
        none="there are no users",
        json=json,
    )


@app.command
def create(
    name: str,
    *,
    password_file: PasswordFile = None,
    mechanism: Mechanisms = (),
    iterations: Iterations = ITERATIONS_MIN,
    json: Json = False,
    zookeeper: Annotated[
        str | None,
        Parameter(
            help="Write the user into this ZooKeeper, host:port,host:port/chroot, without asking a"
            " broker: for the brokers' own user, before the first of them starts."
        ),
    ] = None,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Create a user; the password is asked for, or read from a file.

    For example: headrace user create alice; headrace user create alice --password-file secret.txt
    """
    wanted = _checked(name, mechanism, iterations)
    if zookeeper is not None:
        password = password_of(name, password_file, twice=True)
        if not _create_in(zookeeper, name, wanted, password, iterations):
            raise CommandError(_there_is(name))
        _tell("created", name, wanted, json=json)
        return
    with cluster.client() as client:
        if _find(client, name) is not None:
            raise CommandError(_there_is(name))
        password = password_of(name, password_file, twice=True)
        _set(client, name, wanted, password, iterations)
    _tell("created", name, wanted, json=json)


@app.command
def alter(
    name: str,
    *,
    password_file: PasswordFile = None,
    mechanism: Mechanisms = (),
    iterations: Iterations = ITERATIONS_MIN,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Give a user another password; it holds from the next connection on.

    For example: headrace user alter alice
    """
    wanted = _checked(name, mechanism, iterations)
    with cluster.client() as client:
        _existing(client, name)
        password = password_of(name, password_file, twice=True)
        _set(client, name, wanted, password, iterations)
    _tell("altered", name, wanted, json=json)


@app.command(alias="rm")
def delete(
    name: str,
    *,
    mechanism: Mechanisms = (),
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Delete a user; open connections stay open. It asks on a terminal.

    For example: headrace user delete alice; headrace user delete alice --mechanism SCRAM-SHA-256
    """
    wanted = _checked(name, mechanism, ITERATIONS_MIN)
    with cluster.client() as client:
        there = _existing(client, name).credentials
        deleted = [each for each in wanted if each in there]
        if not deleted:
            raise CommandError(f"user {name} has no credential for {', '.join(wanted)}")
        confirm_on_terminal(f"Delete {', '.join(deleted)} of user {name}?", yes=yes)
        for each in deleted:
            run(delete_credential(client, name, each))
    _tell("deleted", name, deleted, json=json)


def _checked(name: str, mechanisms: tuple[str, ...], iterations: int) -> list[Mechanism]:
    if not name:
        raise UsageError("a user needs a name")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise UsageError(f"--iterations {iterations}: must be {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    for word in mechanisms:
        if word not in HASHES:
            raise UsageError(f"--mechanism {word}: must be one of {', '.join(HASHES)}")
    return [mechanism for mechanism in HASHES if not mechanisms or mechanism in mechanisms]


def _set(
    client: Client, name: str, mechanisms: list[Mechanism], password: Secret, iterations: int
) -> None:
    # A request per mechanism: brokers refuse two alterations of a user in one request.
    for mechanism in mechanisms:
        run(set_credential(client, name, mechanism, password, iterations))


def _create_in(
    zookeeper: str, name: str, mechanisms: list[Mechanism], password: Secret, iterations: int
) -> bool:
    """Write a new user into ZooKeeper; return False if the user exists.

    Other `zookeeper.*` settings come from the environment.
    """
    from secrets import token_bytes

    from headrace.cli.broker.start import load_config
    from headrace.server.cluster.users_in_zookeeper import create_user
    from headrace.server.main import run as run_on_loop

    config, _ = load_config(None, {"zookeeper.connect": zookeeper, "broker.id": "0"})
    credentials = {
        mechanism: make_credential(mechanism, password, token_bytes(SALT_BYTES), iterations)
        for mechanism in mechanisms
    }
    return run_on_loop(create_user(config, name, credentials))


def _there_is(name: str) -> str:
    return f"there is a user {name} already; see: headrace user alter --help"


def _find(client: Client, name: str) -> User | None:
    return next((user for user in run(describe_users(client)) if user.name == name), None)


def _existing(client: Client, name: str) -> User:
    user = _find(client, name)
    if user is None:
        raise CommandError(f"there is no user {name}; see: headrace user list", EXIT_NOT_FOUND)
    return user


def _tell(verb: str, name: str, mechanisms: list[Mechanism], *, json: bool) -> None:
    value = {"user": name, "mechanisms": [str(mechanism) for mechanism in mechanisms]}
    tell(f"{verb} {name} ({', '.join(mechanisms)})", value, json=json)


def _as_json(user: User) -> dict[str, object]:
    return {
        "user": user.name,
        "credentials": [
            {"mechanism": mechanism, "iterations": iterations}
            for mechanism, iterations in sorted(user.credentials.items())
        ],
    }
