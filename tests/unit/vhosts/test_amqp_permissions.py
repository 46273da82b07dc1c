"""What each method needs of configure, write and read; vhosts and their ends; limits."""

from itertools import product
from typing import Any

import pytest

from headrace.queues.permissions.access import Grant, Permission, TopicGrant
from headrace.queues.permissions.definitions import Definitions, UserDefinition, VhostDefinition
from headrace.wire.amqp.control_methods import ChannelClose, ChannelOpen, ConnectionClose
from headrace.wire.amqp.methods import Method
from headrace.wire.amqp.model_methods import (
    BasicConsume,
    BasicGet,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from tests.support.amqp.access import admission_of
from tests.support.amqp.channels import QueueClient, QueueRoom, names

C, W, R = Permission.CONFIGURE, Permission.WRITE, Permission.READ
NEEDS: list[tuple[Method, set[tuple[Permission, str, str]]]] = [
    (ExchangeDeclare(exchange="e2", type="direct"), {(C, "exchange", "e2")}),
    (
        ExchangeDeclare(exchange="e3", type="direct", arguments={"alternate-exchange": "a"}),
        {(C, "exchange", "e3"), (R, "exchange", "e3"), (W, "exchange", "a")},
    ),
    (ExchangeDelete(exchange="e"), {(C, "exchange", "e")}),
    (QueueDeclare(queue="q2"), {(C, "queue", "q2")}),
    (
        QueueDeclare(queue="q3", arguments={"x-dead-letter-exchange": "d"}),
        {(C, "queue", "q3"), (R, "queue", "q3"), (W, "exchange", "d")},
    ),
    (QueueDelete(queue="q"), {(C, "queue", "q")}),
    (QueueBind(queue="q", exchange="e"), {(W, "queue", "q"), (R, "exchange", "e")}),
    (QueueUnbind(queue="q", exchange="e"), {(W, "queue", "q"), (R, "exchange", "e")}),
    (
        ExchangeBind(destination="e", source="s"),
        {(W, "exchange", "e"), (R, "exchange", "s")},
    ),
    (
        ExchangeUnbind(destination="e", source="s"),
        {(W, "exchange", "e"), (R, "exchange", "s")},
    ),
    (QueuePurge(queue="q"), {(R, "queue", "q")}),
    (BasicGet(queue="q"), {(R, "queue", "q")}),
    (BasicConsume(queue="q", consumer_tag="c"), {(R, "queue", "q")}),
]
"""What each method needs, of RabbitMQ's table of access control."""
ALL_NAMES = {"e", "e2", "e3", "a", "q", "q2", "q3", "d", "s"}


class House:
    """A broker with vhosts `/` and `shop`; `admin` may do all in both."""

    def __init__(self, connections_max: int = -1, queues_max: int = -1) -> None:
        """Limit `shop`."""
        self.definitions = Definitions()
        self.definitions.put_vhost("shop", VhostDefinition("", connections_max, queues_max))
        every = Grant(".*", ".*", ".*")
        self.let("admin", every, "/", "shop")
        self.room = QueueRoom(admission=admission_of(self.definitions, super_users=["root"]))

    def let(self, user: str, grant: Grant, *vhosts: str, **limits: Any) -> None:
        grants = dict.fromkeys(vhosts or ["/"], grant)
        self.definitions.put_user(user, UserDefinition(grants=grants, **limits))

    def client(self, user: str, vhost: str = "/") -> QueueClient:
        return self.room.client(user=user, vhost=vhost)

    def furnish(self) -> None:
        admin = self.client("admin")
        for name in ("e", "s", "a", "d"):
            admin.ask(ExchangeDeclare(exchange=name, type="direct"))
        admin.declare("q")


def expression(allowed: set[str]) -> str:
    return f"^({'|'.join(sorted(allowed))})$" if allowed else ""


def grant_of(needs: set[tuple[Permission, str, str]]) -> Grant:
    return Grant(
        *(expression({name for kind, _, name in needs if kind is each}) for each in (C, W, R))
    )


@pytest.mark.parametrize(("method", "needs"), NEEDS, ids=lambda value: type(value).__name__)
def test_a_method_needs_what_the_table_says_and_no_more(
    method: Method, needs: set[tuple[Permission, str, str]]
) -> None:
    house = House()
    house.furnish()
    house.let("u", grant_of(needs))
    assert not isinstance(house.client("u").ask(method), ChannelClose)


@pytest.mark.parametrize(
    ("method", "needs", "missing"),
    [(method, needs, missing) for method, needs in NEEDS for missing in needs],
)
def test_without_one_of_its_permissions_a_method_is_refused_in_rabbitmqs_words(
    method: Method,
    needs: set[tuple[Permission, str, str]],
    missing: tuple[Permission, str, str],
) -> None:
    house = House()
    house.furnish()
    permission, kind, name = missing
    # All there is but that one name for that one permission.
    allowed = {each: expression(ALL_NAMES) for each in (C, W, R)}
    allowed[permission] = expression(ALL_NAMES - {name})
    house.let("u", Grant(allowed[C], allowed[W], allowed[R]))
    closed = house.client("u").ask(method)
    assert (closed.reply_code, closed.reply_text) == (
        403,
        f"ACCESS_REFUSED - {permission.value} access to {kind} '{name}' in vhost '/' refused for"
        " user 'u'",
    )


def test_publishing_needs_to_write_and_a_topic_its_routing_key_too() -> None:
    house = House()
    house.let("u", Grant("", "^amq.topic$", ""))
    user = house.definitions.users["u"]
    only_own = {("/", "amq.topic"): TopicGrant("^{username}[.]", "")}
    house.definitions.put_user("u", user._replace(topic_grants=only_own))
    assert house.client("u").publish(b"m", exchange="amq.topic", key="u.a") == []
    (heard,) = house.client("u").publish(b"m", exchange="amq.topic", key="v.a")
    assert heard.method.reply_text == (
        "ACCESS_REFUSED - write access to topic 'v.a' in exchange 'amq.topic' in vhost '/' refused"
        " for user 'u'"
    )
    (heard,) = house.client("u").publish(b"m", key="q")
    assert heard.method.reply_text == (
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'u'"
    )


def test_a_permission_that_is_taken_holds_no_longer_on_open_channels() -> None:
    house = House()
    house.furnish()
    house.let("u", Grant("", ".*", ""))
    client = house.client("u")
    assert client.publish(b"m", key="q") == []
    house.let("u", Grant("", "^other$", ""))
    (heard,) = client.publish(b"m", key="q")
    assert heard.method.reply_code == 403


def test_who_may_read_no_more_is_delivered_nothing_more() -> None:
    house = House()
    house.furnish()
    house.let("u", Grant("", "", "^q$"))
    client, other = house.client("u"), house.client("u")
    client.consume()
    other.say(ChannelOpen(), channel=2)
    house.let("u", Grant("", "", "^x$"))
    (heard,) = client.heard()
    assert heard.method.reply_text == (
        "ACCESS_REFUSED - read access to queue 'q' in vhost '/' refused for user 'u'"
    )
    assert other.heard() == [], "who did not consume goes on"
    house.client("admin").publish(b"m")
    assert client.heard() == []


def refused(heard: Any) -> tuple[int, str]:
    (last,) = [each.method for each in heard if isinstance(each.method, ConnectionClose)]
    return last.reply_code, last.reply_text


def test_a_vhost_is_opened_by_who_has_permissions_there_and_by_super_users() -> None:
    house = House()
    house.let("u", Grant("", "", ""), "shop")
    assert house.client("u", "shop").opened
    assert house.client("root", "shop").opened
    for user, vhost, text in (
        ("u", "/", "access to vhost '/' refused for user 'u'"),
        ("nobody", "shop", "access to vhost 'shop' refused for user 'nobody'"),
        ("admin", "none", "vhost none not found"),
        ("admin", "", "vhost  not found"),
    ):
        assert refused(house.client(user, vhost).all) == (530, f"NOT_ALLOWED - {text}")


def test_vhosts_have_queues_and_exchanges_of_their_own() -> None:
    house = House()
    here, there = house.client("admin"), house.client("admin", "shop")
    here.declare("q")
    assert there.declare("q", passive=True).reply_text == "NOT_FOUND - no queue 'q' in vhost 'shop'"


def test_a_vhost_that_is_deleted_closes_its_connections_and_takes_its_queues() -> None:
    house = House()
    here, there = house.client("admin"), house.client("admin", "shop")
    there.declare("q", durable=True)
    there.publish(b"m")
    house.definitions.put_vhost("shop", None)
    assert refused(there.heard()) == (320, "CONNECTION_FORCED - vhost 'shop' is deleted")
    assert here.heard() == []
    assert house.room.broker.clients.count_in("shop") == 0
    assert refused(house.client("admin", "shop").all)[1] == "NOT_ALLOWED - vhost shop not found"
    house.definitions.put_vhost("shop", VhostDefinition())
    assert names(house.client("admin", "shop").say(BasicGet(queue="q"))) == ["ChannelClose"]


def test_a_user_who_is_deleted_is_cut_off() -> None:
    house = House()
    house.let("u", Grant("", "", ""))
    client, other = house.client("u"), house.client("admin")
    house.definitions.put_user("u", None)
    assert refused(client.heard()) == (320, "CONNECTION_FORCED - user 'u' is deleted")
    assert other.heard() == []


def test_a_vhosts_limit_of_connections_is_told_in_rabbitmqs_words() -> None:
    house = House(connections_max=2)
    first, _ = house.client("admin", "shop"), house.client("admin", "shop")
    text = "access to vhost 'shop' refused for user 'admin': connection limit (2) is reached"
    assert refused(house.client("admin", "shop").all) == (530, f"NOT_ALLOWED - {text}")
    assert house.client("admin").opened
    first.say(ConnectionClose(200, "", 0, 0), channel=0)
    assert house.client("admin", "shop").opened


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_of_0_lets_nobody_in_and_one_below_everybody(most: int) -> None:
    assert House(connections_max=most).client("admin", "shop").opened is (most < 0)


def test_a_vhosts_limit_of_queues_is_told_in_rabbitmqs_words() -> None:
    house = House(queues_max=1)
    client = house.client("admin", "shop")
    client.declare("a")
    assert client.declare("a").queue == "a"
    closed = client.declare("b")
    assert closed.reply_text == (
        "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in vhost 'shop' (1) is reached"
    )
    house.definitions.put_vhost("shop", VhostDefinition(queues_max=2))
    assert house.client("admin", "shop").declare("b").queue == "b"


def test_a_users_limits_are_told_in_rabbitmqs_words() -> None:
    house = House()
    house.let("u", Grant("", "", ""), "/", "shop", connections_max=2, channels_max=3)
    first, second = house.client("u"), house.client("u", "shop")
    text = "connection refused for user 'u': user connection limit (2) is reached"
    assert refused(house.client("u").all) == (530, f"NOT_ALLOWED - {text}")
    assert names(first.say(ChannelOpen(), channel=2)) == ["ChannelOpenOk"]
    text = (
        "number of channels opened for user 'u' has reached the maximum allowed user limit of (3)"
    )
    assert refused(second.say(ChannelOpen(), channel=2)) == (530, f"NOT_ALLOWED - {text}")
    # Those of a connection that is gone count no more.
    assert house.client("u").opened


def test_every_client_that_is_gone_is_counted_no_more() -> None:
    house = House()
    for user, vhost in product(("admin", "root"), ("/", "shop")):
        client = house.client(user, vhost)
        assert house.room.broker.clients.count_of(user) == 1
        client.connection.lost()
        assert house.room.broker.clients.count_of(user) == 0
    assert list(house.room.broker.clients) == []
