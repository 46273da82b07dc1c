"""`headrace profile`: named clusters, with their addresses and client settings."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from headrace.client.transport.port import parse_bootstrap
from headrace.config.client_settings import HIDDEN, is_secret, is_security
from headrace.config.listeners import CLIENT_PROTOCOL
from headrace.model.errors import ConfigError
from headrace.terminal.broker_options import Json, client_settings, security_of
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.output import print_json, print_line, print_table
from headrace.terminal.passwords import PasswordFile, password_of
from headrace.terminal.profile_file import Profile, Profiles, load, path, save

app = App(
    name="profile",
    help="Keep clusters' addresses and settings under names; one is used where no -b is given.",
)

_USERNAME, _PASSWORD, _JAAS = "sasl.username", "sasl.password", "sasl.jaas.config"

Address = Annotated[
    str | None,
    Parameter(
        name=["--bootstrap-server", "-b", "--bootstrap", "--brokers"],
        help="Brokers to ask first, as host:port,host:port; by default those of --command-config.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    Parameter(
        name="--command-config",
        help="A client's properties file: its settings of security become the profile's.",
    ),
]
Settings = Annotated[
    tuple[str, ...],
    Parameter(
        name=["--set", "-X"],
        help="A setting that is no secret, as security.protocol=SASL_SSL; may be given again.",
    ),
]


@app.command
def create(
    name: str,
    *,
    bootstrap: Address = None,
    command_config: ConfigFile = None,
    settings: Settings = (),
    password_file: PasswordFile = None,
    use: Annotated[bool, Parameter(help="Use it from now on.")] = False,
    overwrite: Annotated[bool, Parameter(help="Change one that is there already.")] = False,
) -> None:
    """Keep a cluster's addresses and settings under a name. The first one is used from then on.

    The password of sasl.username is asked for. HEADRACE_PROFILE names another profile for a shell.
    For example: headrace profile create staging -b broker1:9092,broker2:9092 --use; headrace
    profile create prod --command-config client.properties
    """
    if not name.strip() or name.startswith("-"):
        raise UsageError(f"{name!r} is no name for a profile")
    known = load()
    if name in known.known and not overwrite:
        raise CommandError(f"there is a profile {name} already: --overwrite changes it")
    made = _made(bootstrap, command_config, settings, password_file)
    current = name if use or not known.known else known.current
    save(Profiles(current, {**known.known, name: made}))
    print_line(f"created {name} in {path()}" + (", used from now on" if current == name else ""))


@app.command(name="list", alias="ls")
def list_(*, json: Json = False) -> None:
    """List the profiles; the one that is used is marked.

    For example: headrace profile list
    """
    known = load()
    used = known.used()
    rows = sorted(known.known.items())
    if json:
        print_json([_as_json(name, profile, used) for name, profile in rows])
        return
    print_table(
        ("", "name", "bootstrap", "security"),
        [
            ("*" if name == used else "", name, profile.bootstrap, _security(profile))
            for name, profile in rows
        ],
    )


@app.command
def show(name: str | None = None, /, *, json: Json = False) -> None:
    """Show a profile, by default the one that is used; secrets as ***.

    For example: headrace profile show staging
    """
    known = load()
    used = known.used()
    wanted = used if name is None else name
    if wanted is None:
        raise CommandError("no profile is used; see: headrace profile use --help", EXIT_NOT_FOUND)
    profile = known.named(wanted)
    if json:
        print_json(_as_json(wanted, profile, used))
        return
    print_table(("name", "bootstrap"), [(wanted, profile.bootstrap)])
    if profile.settings:
        print_table(("setting", "value"), sorted(_shown(profile).items()))


@app.command
def use(name: str) -> None:
    """Use a profile from now on, where neither -b nor HEADRACE_PROFILE says otherwise.

    For example: headrace profile use staging
    """
    known = load()
    known.named(name)
    save(known._replace(current=name))
    print_line(f"{name} is used from now on")


@app.command
def delete(name: str) -> None:
    """Forget a profile.

    For example: headrace profile delete staging
    """
    known = load()
    known.named(name)
    left = {each: profile for each, profile in known.known.items() if each != name}
    save(Profiles(None if known.current == name else known.current, left))
    print_line(f"deleted {name}")


def _made(
    bootstrap: str | None, file: Path | None, settings: tuple[str, ...], password_file: Path | None
) -> Profile:
    """Return a profile that a client can be created from. Raises UsageError."""
    in_file = client_settings(file)
    bootstrap = bootstrap or in_file.get("bootstrap.servers")
    if bootstrap is None:
        raise UsageError(
            "--bootstrap-server: missing; a profile needs brokers, these or bootstrap.servers in"
            " the file that --command-config names"
        )
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UsageError(f"--bootstrap-server: {error}") from None
    found = {key: value for key, value in in_file.items() if is_security(key)} | _given(settings)
    user = found.get(_USERNAME)
    if password_file is not None or (user and not found.keys() & {_PASSWORD, _JAAS}):
        if not user or _JAAS in found:
            raise UsageError(f"--password-file: whose it is says --set {_USERNAME}=NAME")
        found[_PASSWORD] = password_of(user, password_file, twice=False).reveal()
    for key in found:
        if key.endswith(".location"):  # the profile is used in other directories
            found[key] = os.path.abspath(found[key])
    try:
        security_of(found)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    if found and CLIENT_PROTOCOL not in found:
        raise UsageError(f"{CLIENT_PROTOCOL}: missing; SSL, SASL_SSL or SASL_PLAINTEXT")
    return Profile(bootstrap, found)


def _given(settings: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of --set; UsageError for a secret or a setting that is no security."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if is_secret(name):
            raise UsageError(
                f"--set {name}: a secret is for all to see on a command line; put it into a file"
                " and name that by --command-config, or a password's by --password-file"
            )
        if not equals or not is_security(name):
            raise UsageError(
                f"--set {name}: must be NAME=VALUE, of ssl.…, sasl.… or {CLIENT_PROTOCOL}"
            )
        found[name] = value
    return found


def _shown(profile: Profile) -> dict[str, str]:
    return {name: HIDDEN if is_secret(name) else value for name, value in profile.settings.items()}


def _security(profile: Profile) -> str:
    return profile.settings.get(CLIENT_PROTOCOL, "")


def _as_json(name: str, profile: Profile, used: str | None) -> dict[str, object]:
    return {
        "profile": name,
        "bootstrap": profile.bootstrap,
        "used": name == used,
        "settings": _shown(profile),
    }
