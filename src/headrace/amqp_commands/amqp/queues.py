"""`headrace amqp queue`: list, declare, delete and purge queues; `queue_members` moves them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from headrace.amqp_commands.amqp.arguments import Arguments, arguments_of
from headrace.amqp_commands.amqp.ask import ask_amqp
from headrace.amqp_commands.amqp.asking import (
    DEFAULT_VHOST,
    Column,
    Vhost,
    add_list,
    ask,
    cell,
    tell_declared,
)
from headrace.amqp_commands.amqp.queue_members import critical_, grow, rebalance, shrink
from headrace.client.sync import run
from headrace.terminal.broker_options import BrokerOptions, Json
from headrace.terminal.confirmation import Yes, confirm
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.output import counted, print_table
from headrace.terminal.per_name_outcomes import describe_each, do_to_each

app = App(name="queue", help="List, declare, delete and purge queues.")

app.command(grow)
app.command(shrink)
app.command(rebalance)
app.command(critical_, name="critical")
_TYPE = "x-queue-type"
_COLUMNS: list[Column] = [
    ("VHOST", "vhost"), ("QUEUE", "name"), ("TYPE", "type"), ("DURABLE", "durable"),
    ("EXCLUSIVE", "exclusive"), ("STATE", "state"),
    ("LEADER", "leader"), ("MEMBERS", "members"), ("ONLINE", "online"),
    ("READY", "messages_ready"), ("UNACKED", "messages_unacknowledged"),
    ("CONSUMERS", "consumers"), ("ARGUMENTS", "arguments"),
]  # fmt: skip
add_list(
    app,
    "List queues with their ready and unacknowledged messages and their consumers.\n\nFor example:"
    " headrace amqp queue list; headrace amqp queue list --vhost shop --json",
    _COLUMNS,
    "there are no queues",
)


@app.command
def show(
    *names: str,
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Show queues with their members, counts and arguments.

    For example: headrace amqp queue show orders --vhost shop
    """
    with cluster.client() as client:

        def look(name: str) -> dict[str, Any]:
            rows = run(ask_amqp(client, "queue.list", vhost=vhost, name=name))
            if not rows:
                raise CommandError(f"there is no queue {name} in vhost {vhost}", EXIT_NOT_FOUND)
            return dict(rows[0])

        def tell(row: dict[str, Any]) -> None:
            print_table(["FIELD", "VALUE"], [[field, cell(row, field)] for field in row])

        return describe_each("name", names, look, tell, lambda row: row, json=json)


@app.command
def declare(
    name: str,
    *,
    type_: Annotated[
        Literal["classic", "quorum", "stream"],
        Parameter(name="--type", show_default=True, help="What kind of queue."),
    ] = "classic",
    transient: Annotated[
        bool, Parameter(help="It is gone after a restart, with its messages.")
    ] = False,
    auto_delete: Annotated[bool, Parameter(help="It goes with its last consumer.")] = False,
    argument: Arguments = (),
    vhost: Vhost = DEFAULT_VHOST,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> None:
    """Declare a queue, a durable one without --transient; no error where the same is there.

    For example: headrace amqp queue declare orders --type quorum --vhost shop; headrace amqp queue
    declare mails --argument x-max-length=1000 --argument x-overflow=reject-publish
    """
    arguments = arguments_of(argument)
    if _TYPE in arguments:
        raise UsageError(f"--argument {_TYPE}: --type says what kind of queue")
    arguments[_TYPE] = type_
    declared = ask(
        cluster,
        "queue.declare",
        vhost=vhost,
        name=name,
        durable=not transient,
        auto_delete=auto_delete,
        arguments=arguments,
    )
    tell_declared("queue", vhost, declared, json=json)


@app.command(alias="rm")
def delete(
    *names: str,
    if_unused: Annotated[
        bool, Parameter(help="Only without consumers; for classic queues.")
    ] = False,
    if_empty: Annotated[
        bool, Parameter(help="Only without ready messages; for classic queues.")
    ] = False,
    vhost: Vhost = DEFAULT_VHOST,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Delete queues with their messages and bindings; their consumers are cancelled.

    For example: headrace amqp queue delete orders mails --vhost shop
    """
    _asked(names, "Delete {} with all messages?", vhost, yes=yes)
    question = {"if_unused": if_unused, "if_empty": if_empty}
    return _each(cluster, "deleted", "queue.delete", names, {"vhost": vhost, **question}, json=json)


@app.command
def purge(
    *names: str,
    vhost: Vhost = DEFAULT_VHOST,
    yes: Yes = False,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008
) -> int:
    """Delete the messages of queues that are ready; what consumers hold stays theirs.

    For example: headrace amqp queue purge orders --vhost shop
    """
    _asked(names, "Delete all ready messages of {}?", vhost, yes=yes)
    return _each(cluster, "purged", "queue.purge", names, {"vhost": vhost}, json=json)


def _asked(names: tuple[str, ...], question: str, vhost: str, *, yes: bool) -> None:
    """Ask for confirmation, with the queues' names. UsageError: no queue is named."""
    if not names:
        raise UsageError("name at least one queue")
    what = f"queue {names[0]}" if len(names) == 1 else f"queues {', '.join(names)}"
    confirm(question.format(f"{what} in vhost {vhost}"), yes=yes)


def _each(
    cluster: BrokerOptions,
    done: str,
    operation: str,
    names: tuple[str, ...],
    question: Mapping[str, object],
    *,
    json: bool,
) -> int:
    """Delete or purge each queue and print the result; return the exit code."""
    counts: dict[str, int] = {}
    with cluster.client() as client:

        def act(name: str) -> tuple[bool, str]:
            count = run(ask_amqp(client, operation, **question, name=name))
            counts[name] = count
            # The deletion of a stream returns no number of messages.
            told = f": {counted(count, 'message')}" if count or done == "purged" else ""
            return True, f"{done} {name}{told}"

        return do_to_each(
            "queue", names, done, act, lambda name: {"messages": counts.pop(name, None)}, json=json
        )
