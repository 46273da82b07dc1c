"""`headrace profile`: clusters' addresses under names, so that `-b` need not be written."""

from typing import Annotated

from cyclopts import App, Parameter

from headrace.cli.shared.broker_options import Json
from headrace.cli.shared.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.cli.shared.output import print_json, print_line, print_table
from headrace.cli.shared.profile_file import Profiles, load, path, save
from headrace.client.transport import parse_bootstrap

app = App(
    name="profile",
    help="Keep clusters' addresses under names; one of them is used where no -b is given.",
    default_parameter=Parameter(show_default=False, negative=()),
)

Address = Annotated[
    str,
    Parameter(
        name=["--bootstrap-server", "-b", "--bootstrap", "--brokers"],
        help="Brokers to ask first, as host:port,host:port.",
    ),
]


@app.command
def create(
    name: str,
    *,
    bootstrap: Address,
    use: Annotated[bool, Parameter(negative=(), help="Use it from now on.")] = False,
    overwrite: Annotated[
        bool, Parameter(negative=(), help="Change one that is there already.")
    ] = False,
) -> None:
    """Keep a cluster's addresses under a name. The first one is used from then on.

    HEADRACE_PROFILE names another one for a shell. For example: headrace profile create staging
    -b broker1:9092,broker2:9092 --use
    """
    if not name.strip() or name.startswith("-"):
        raise UsageError(f"{name!r} is no name for a profile")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as error:
        raise UsageError(f"--bootstrap-server: {error}") from None
    known = load()
    if name in known.addresses and not overwrite:
        raise CommandError(f"there is a profile {name} already: --overwrite changes it")
    current = name if use or not known.addresses else known.current
    save(Profiles(current, {**known.addresses, name: bootstrap}))
    print_line(f"created {name} in {path()}" + (", used from now on" if current == name else ""))


@app.command(name="list", alias="ls")
def list_(*, json: Json = False) -> None:
    """List the profiles; the one that is used is marked.

    For example: headrace profile list
    """
    known = load()
    used = known.used()
    rows = sorted(known.addresses.items())
    if json:
        print_json([_as_json(name, bootstrap, used) for name, bootstrap in rows])
        return
    print_table(
        ("", "name", "bootstrap"),
        [("*" if name == used else "", name, bootstrap) for name, bootstrap in rows],
    )


@app.command
def show(name: str | None = None, /, *, json: Json = False) -> None:
    """Show a profile, by default the one that is used.

    For example: headrace profile show staging
    """
    known = load()
    used = known.used()
    wanted = used if name is None else name
    if wanted is None:
        raise CommandError("no profile is used; see: headrace profile use --help", EXIT_NOT_FOUND)
    bootstrap = known.bootstrap_of(wanted)
    if json:
        print_json(_as_json(wanted, bootstrap, used))
        return
    print_table(("name", "bootstrap"), [(wanted, bootstrap)])


@app.command
def use(name: str) -> None:
    """Use a profile from now on, where neither -b nor HEADRACE_PROFILE says otherwise.

    For example: headrace profile use staging
    """
    known = load()
    known.bootstrap_of(name)
    save(known._replace(current=name))
    print_line(f"{name} is used from now on")


@app.command
def delete(name: str) -> None:
    """Forget a profile.

    For example: headrace profile delete staging
    """
    known = load()
    known.bootstrap_of(name)
    left = {each: address for each, address in known.addresses.items() if each != name}
    save(Profiles(None if known.current == name else known.current, left))
    print_line(f"deleted {name}")


def _as_json(name: str, bootstrap: str, used: str | None) -> dict[str, object]:
    return {"profile": name, "bootstrap": bootstrap, "used": name == used}
