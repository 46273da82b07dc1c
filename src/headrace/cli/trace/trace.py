"""`headrace trace`: replication step by step, with HW and LEO of each replica."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from headrace.observe.logs import silenced
from headrace.terminal.broker_options import BrokerOptions, Json, check_seconds
from headrace.terminal.failure import EXIT_NOT_FOUND, CommandError, UsageError
from headrace.terminal.output import print_columns, print_json, print_line, print_table

if TYPE_CHECKING:
    from headrace.testing.sim.textbook.cases import Case


def trace(
    *names: str,
    show_list: Annotated[bool, Parameter(name="--list", help="List the cases.")] = False,
    seed: Annotated[
        int,
        Parameter(show_default=True, help="Seed for delays and the order of events."),
    ] = 0,
    follow: Annotated[
        bool,
        Parameter(
            name=["--follow", "-f"],
            help="Follow topics of a running cluster, until Ctrl-C: a line for each change of a"
            " partition's leader, epoch, ISR and offsets.",
        ),
    ] = False,
    interval: Annotated[
        float,
        Parameter(show_default=True, help="Interval of --follow in seconds."),
    ] = 0.5,
    json: Json = False,
    cluster: BrokerOptions = BrokerOptions(),  # noqa: B008 - a frozen value
) -> None:
    """Play CASE on simulated brokers, or with --follow watch TOPICs of a running cluster.

    The same seed plays the same steps. HW: high watermark; LEO: log end offset; REMOTE LEO: the
    followers' end offsets as the leader knows them from their last Fetch.
    """
    if follow:
        if show_list or not names:
            raise UsageError("--follow needs the topics to follow: headrace trace --follow TOPIC")
        check_seconds("--interval", interval)
        from headrace.cli.trace.live import follow_topics

        with cluster.client(patient=True) as client:
            follow_topics(client, names, interval, json=json)
    elif show_list or not names:
        _list_cases(json=json)
    elif len(names) > 1:
        raise UsageError("one case at a time: headrace trace CASE; see: headrace trace --list")
    else:
        _play(names[0], seed, json=json)


def _list_cases(*, json: bool) -> None:
    from headrace.testing.sim.textbook.cases import CASES

    if json:
        print_json([{"case": name, "shows": case.shows} for name, case in CASES.items()])
    else:
        print_table(["CASE", "SHOWS"], [[name, case.shows] for name, case in CASES.items()])


def _play(name: str, seed: int, *, json: bool) -> None:
    from headrace.testing.sim.textbook.cases import play_case

    case = _case(name)
    with silenced("headrace"):  # the log lines of simulated brokers would only confuse
        steps = play_case(case, seed).trace
    if json:
        print_json({"case": name, "seed": seed, "shows": case.shows, "steps": steps.as_json()})
        return
    print_line(f"{name}: {case.shows}")
    print_columns(steps.headings(), steps.rows())


def _case(name: str) -> "Case":
    from difflib import get_close_matches

    from headrace.testing.sim.textbook.cases import CASES

    case = CASES.get(name)
    if case is None:
        near = [known for known in CASES if name in known] or get_close_matches(name, CASES)
        advice = f"did you mean {' or '.join(near)}?" if near else "see: headrace trace --list"
        raise CommandError(f"there is no case {name}; {advice}", EXIT_NOT_FOUND)
    return case
