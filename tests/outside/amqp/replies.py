"""What RabbitMQ answers to each case, kept in tests/golden: our broker's tests are held to it.

python -m tests.outside.amqp.replies            # asks a RabbitMQ, and writes the file anew
python -m tests.outside.amqp.replies --check    # asks it, and prints what has changed
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from tests.outside.amqp import frames
from tests.outside.amqp.address import Address
from tests.outside.amqp.cases import connections, exchanges, messages, queues
from tests.outside.amqp.cases.case import Case, Step
from tests.outside.amqp.frames import Ended, RawConnection, Received
from tests.outside.amqp.peer import rabbitmq

GOLDEN = Path(__file__).parents[2] / "golden" / "rabbitmq-4.0.5-replies.json"
CASES = [*connections.CASES, *exchanges.CASES, *queues.CASES, *messages.CASES]
QUEUES, EXCHANGES = ("q", "own.q", "theirs"), ("e", "own.e", "theirs")
SILENCE_SECONDS = 1.5
"""Of a handshake's last step that is not answered: then nothing was refused."""
Reply = dict[str, Any]


def play(case: Case, address: Address) -> Reply:
    """Play a case. AssertionError where a step before the last is not answered as it has to be."""
    who = address._replace(user=case.user, password=case.password)
    opened: dict[int, RawConnection] = {}
    *before, last = case.steps
    try:
        for step in before:
            connection = _connection(opened, step, who, case)
            connection.send(step.data)
            while step.answered and connection.expect_any(case.name).name != step.answered:
                pass
        return _outcome(_connection(opened, last, who, case), last, case)
    finally:
        for connection in opened.values():
            connection.say_goodbye() if case.opened else connection.close()
        tidy_up(address)


def _connection(
    opened: dict[int, RawConnection], step: Step, address: Address, case: Case
) -> RawConnection:
    if step.connection not in opened:
        connection = opened[step.connection] = RawConnection(address)
        if case.opened:
            connection.open()
            connection.open_channel()
    return opened[step.connection]


def _outcome(connection: RawConnection, last: Step, case: Case) -> Reply:
    probe = case.opened and last.answered is None
    try:
        connection.send(last.data)
        if probe:
            connection.send(frames.method(Basic.Qos()))
        while True:
            silence = frames.ANSWER_SECONDS_MAX if case.opened or last.answered else SILENCE_SECONDS
            received = connection.receive_method(silence)
            if received.name == "basic.qos-ok" and probe:
                return {"accepted": True}
            if (reply := _reply(received, last)) is not None:
                return reply
    except TimeoutError:
        return {"accepted": True} if not case.opened else {"silent": True}
    except Ended:
        return {"closes": "socket"}


def _reply(received: Received, last: Step) -> Reply | None:
    """What a frame says about the case; None where it says nothing."""
    match received.frame:
        case Connection.Close() | Channel.Close() as close:
            return {
                "closes": received.name.partition(".")[0],
                "code": close.reply_code,
                "text": close.reply_text,
                "class": close.class_id,
                "method": close.method_id,
            }
        case _ if received.name in (last.answered, "protocol-header"):
            return {"answers": received.name}
    return None


def tidy_up(address: Address) -> None:
    """Delete what cases leave behind."""
    with RawConnection(address).open() as connection:
        deletions = [Queue.Delete(queue=queue) for queue in QUEUES]
        deletions += [Exchange.Delete(exchange=exchange) for exchange in EXCHANGES]
        connection.open_channel()
        for deletion in deletions:
            connection.send(frames.method(deletion))
            name = connection.receive_method().name
            assert name.endswith(".delete-ok"), name
        connection.say_goodbye()


def golden() -> list[Reply]:
    """The cases with RabbitMQ's replies, as they are kept."""
    found: list[Reply] = json.loads(GOLDEN.read_text())["cases"]
    return found


def recorded(case: Case, reply: Reply) -> Reply:
    """A case with its reply, as it is kept: tests can play it without pamqp."""
    steps = []
    for step in case.steps:
        kept = {"name": step.name, "data": step.data.hex(), "answered": step.answered}
        steps.append(kept | ({"connection": step.connection} if step.connection else {}))
    who = {"user": case.user, "password": case.password, "opened": case.opened}
    return {"name": case.name, **who, "steps": steps, "reply": reply}


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask a RabbitMQ; status 1 where `--check` finds other replies."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.outside.amqp.replies", description=__doc__
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("only", nargs="?", default="", help="cases whose names have this in them")
    given = parser.parse_args(arguments)
    kept = {case["name"]: case["reply"] for case in golden()} if GOLDEN.exists() else {}
    found, changed = [], 0
    with rabbitmq() as node:
        for case in CASES:
            if given.only in case.name:
                try:
                    reply = play(case, node.address)
                except (AssertionError, TimeoutError, Ended) as failed:
                    raise AssertionError(f"{case.name}: {failed!r}") from failed
                found.append(recorded(case, reply))
                if reply != kept.get(case.name):
                    changed += 1
                    print(f"{case.name}: {shown(reply)}", flush=True)
    print(f"{len(found)} cases asked of RabbitMQ {node.version}, {changed} replies are new")
    if given.check or given.only:
        return bool(changed)
    head = json.dumps({"broker": f"RabbitMQ {node.version}"})[1:-1]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in found)
    GOLDEN.write_text(f'{{{head}, "cases": [\n{lines}\n]}}\n')
    return 0


def shown(reply: Reply) -> str:
    """A reply in a line."""
    if "code" in reply:
        at = f"{reply['class']}.{reply['method']}"
        return f"{reply['closes']} {reply['text']} ({reply['code']}, {at})"
    with suppress(KeyError):
        return f"answers {reply['answers']}"
    return "accepted" if "accepted" in reply else str(reply)


if __name__ == "__main__":
    sys.exit(main())
