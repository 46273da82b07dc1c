"""Scenarios of aio-pika."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aio_pika
from aio_pika.exceptions import (
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)
from aio_pika.patterns import RPC

from tests.outside.amqp.address import Address
from tests.outside.amqp.scenarios.pika_sync.kit import unused
from tests.outside.matrix.scenario import (
    WAIT_SECONDS_MAX,
    Play,
    Scenarios,
    raises,
)

scenario = Scenarios("aio-pika", "as used")
Body = Callable[[Address], Awaitable[None]]


def _plays(body: Body) -> Play:
    """A scenario of a coroutine; nothing in it waits without end."""

    def _play(address: Address) -> None:
        asyncio.run(asyncio.wait_for(_awaited(body, address), 3 * WAIT_SECONDS_MAX))

    _play.__name__, _play.__module__ = body.__name__, body.__module__
    return scenario(_play)


async def _awaited(body: Body, address: Address) -> None:
    await body(address)


@asynccontextmanager
async def _channel(address: Address, **options: Any) -> AsyncIterator[Any]:
    connection = await aio_pika.connect(address.url, timeout=WAIT_SECONDS_MAX)
    async with connection:
        yield await connection.channel(**options)


def _message(body: str, **properties: Any) -> Any:
    return aio_pika.Message(body.encode(), **properties)


async def _ready(channel: Any, queue: Any) -> int:
    """How many messages wait. Declared passively: names the broker gave are refused else."""
    found = await channel.declare_queue(queue.name, passive=True)
    return int(found.declaration_result.message_count)


async def _arrived(queue: Any) -> Any:
    """A message; waits until there is one."""
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS_MAX
    while (message := await queue.get(fail=False)) is None:
        assert asyncio.get_running_loop().time() < deadline, "no message came"
        await asyncio.sleep(0.02)
    return message


@_plays
async def a_message_goes_through_an_exchange_and_is_acknowledged(address: Address) -> None:
    async with _channel(address) as channel:
        exchange = await channel.declare_exchange(unused("e"), "direct", auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, "key")
        confirmed = await exchange.publish(_message("hello", headers={"a": 1}), "key")
        assert confirmed.delivery_tag == 1
        message = await _arrived(queue)
        assert (message.body, message.headers) == (b"hello", {"a": 1})
        await message.ack()
        assert await _ready(channel, queue) == 0


@_plays
async def a_queue_is_iterated_over(address: Address) -> None:
    async with _channel(address) as channel:
        await channel.set_qos(prefetch_count=5)
        queue = await channel.declare_queue(exclusive=True)
        for number in range(50):
            await channel.default_exchange.publish(_message(str(number)), queue.name)
        found = []
        async with queue.iterator(timeout=WAIT_SECONDS_MAX) as messages:
            async for message in messages:
                async with message.process():
                    found.append(int(message.body))
                if len(found) == 50:
                    break
        assert found == [*range(50)]


@_plays
async def many_are_published_at_once_and_each_is_confirmed(address: Address) -> None:
    async with _channel(address) as channel:
        queue = await channel.declare_queue(exclusive=True)
        publish = channel.default_exchange.publish
        done = await asyncio.gather(*(publish(_message(str(n)), queue.name) for n in range(300)))
        assert len({confirmed.delivery_tag for confirmed in done}) > 0
        assert await _ready(channel, queue) == 300


@_plays
async def what_cannot_be_routed_comes_back_as_an_error(address: Address) -> None:
    async with _channel(address, on_return_raises=True) as channel:
        with raises(PublishError):
            await channel.default_exchange.publish(_message("lost"), unused(), mandatory=True)
    async with _channel(address) as channel:
        back = await channel.default_exchange.publish(_message("lost"), unused(), mandatory=True)
        assert back.body == b"lost"
        assert back.header.properties.delivery_mode is not None


@_plays
async def a_full_queue_refuses_by_an_error(address: Address) -> None:
    async with _channel(address) as channel:
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        queue = await channel.declare_queue(exclusive=True, arguments=arguments)
        publish = channel.default_exchange.publish
        await publish(_message("a"), queue.name)
        with raises(DeliveryError):
            await publish(_message("b"), queue.name)
        assert (await _arrived(queue)).body == b"a"


@_plays
async def a_rejected_message_dies_with_its_history(address: Address) -> None:
    async with _channel(address) as channel:
        dead = await channel.declare_queue(exclusive=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
        queue = await channel.declare_queue(exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(_message("poison"), queue.name)
        message = await _arrived(queue)
        await message.reject(requeue=False)
        message = await _arrived(dead)
        (death,) = message.headers["x-death"]
        assert (death["reason"], death["queue"], death["count"]) == ("rejected", queue.name, 1)
        assert death["routing-keys"] == [queue.name]


@_plays
async def an_expiring_message_dies(address: Address) -> None:
    async with _channel(address) as channel:
        dead = await channel.declare_queue(exclusive=True)
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead.name}
        queue = await channel.declare_queue(exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(_message("brief", expiration=0.2), queue.name)
        message = await _arrived(dead)
        assert message.headers["x-death"][0]["reason"] == "expired"
        assert message.headers["x-death"][0]["original-expiration"] == "200"


@_plays
async def channels_break_one_by_one(address: Address) -> None:
    connection = await aio_pika.connect(address.url)
    async with connection:
        broken, other = await connection.channel(), await connection.channel()
        name = unused()
        with raises(ChannelNotFoundEntity) as refused:
            await broken.declare_queue(name, passive=True)
        assert f"NOT_FOUND - no queue '{name}' in vhost '/'" in str(refused.error)
        queue = await other.declare_queue(name, auto_delete=True)
        with raises(ChannelPreconditionFailed):
            await (await connection.channel()).declare_queue(name, durable=True)
        await queue.delete()


def _fail() -> None:
    raise ZeroDivisionError


@_plays
async def a_transaction_is_committed_and_another_rolled_back(address: Address) -> None:
    async with _channel(address, publisher_confirms=False) as channel:
        queue = await channel.declare_queue(exclusive=True)
        publish = channel.default_exchange.publish
        async with channel.transaction():
            await publish(_message("kept"), queue.name)
        with raises(ZeroDivisionError):
            async with channel.transaction():
                await publish(_message("never"), queue.name)
                _fail()
        assert await _ready(channel, queue) == 1


@_plays
async def procedures_are_called_over_queues(address: Address) -> None:
    async def _double(*, number: int) -> int:
        return 2 * number

    async with _channel(address) as server, _channel(address) as client:
        name = unused("rpc")
        serving = await RPC.create(server)
        await serving.register(name, _double, auto_delete=True)
        calling = await RPC.create(client)
        results = await asyncio.gather(*(calling.call(name, {"number": n}) for n in range(20)))
        assert results == [2 * n for n in range(20)]
        await calling.close()
        await serving.close()


@_plays
async def a_robust_connection_declares_all_again(address: Address) -> None:
    async with _cut_at_will(address) as (port, cut):
        url = address._replace(port=port).url
        connection = await aio_pika.connect_robust(url, reconnect_interval=0.1)
        async with connection:
            await _consume_through_a_cut(connection, cut, address)


@asynccontextmanager
async def _cut_at_will(address: Address) -> AsyncIterator[tuple[int, Callable[[], None]]]:
    """A way to the broker over a port of its own, and what cuts all connections on it."""
    writers: list[asyncio.StreamWriter] = []

    async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(address.host, address.port)
        writers.extend((writer, back))
        await asyncio.gather(_carry(reader, back), _carry(there, writer))

    def _cut() -> None:
        for writer in writers:
            writer.transport.abort()
        writers.clear()

    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], _cut
    finally:
        server.close()
        _cut()


async def _consume_through_a_cut(
    connection: Any, cut: Callable[[], None], address: Address
) -> None:
    channel = await connection.channel()
    got: asyncio.Queue[bytes] = asyncio.Queue()
    name = unused()
    queue = await channel.declare_queue(name, auto_delete=True)

    async def _take(message: Any) -> None:
        await message.ack()
        await got.put(message.body)

    await queue.consume(_take)
    cut()
    async with _channel(address) as other:
        for _ in range(100):
            await other.default_exchange.publish(_message("again"), name)
            try:
                assert await asyncio.wait_for(got.get(), 0.2) == b"again"
            except TimeoutError:
                continue
            return
    raise AssertionError("its consumer never came back")


@_plays
async def a_wrong_password_is_an_error_of_its_own(address: Address) -> None:
    with raises(ProbableAuthenticationError) as refused:
        await aio_pika.connect(address._replace(password="wrong").url)
    assert "ACCESS_REFUSED - Login was refused" in str(refused.error)
