"""Routes that read bodies, refuse them by the head, or take none; and the answers to requests."""

import asyncio

from headrace.frontends.http.router import HttpReply, HttpRequest, HttpRoute, text
from tests.support.net.http_endpoint import asked, serving
from tests.support.net.http_requests import answers_in

LAST = b"GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
MAX = 100_000


async def echo(request: HttpRequest) -> HttpReply:
    """Answer the body."""
    return HttpReply(200, bytes(await request.body.read()))


async def refuses(_: HttpRequest) -> HttpReply:
    """Answer by the head alone."""
    return text(401, "who is it")


async def none(_: HttpRequest) -> HttpReply:
    """Answer a request without a body."""
    return text(200, "none")


ROUTES = (
    HttpRoute("PUT", "/echo", echo, MAX),
    HttpRoute("PUT", "/refuses", refuses, MAX),
    HttpRoute("GET", "/none", none),
)


def answers(sent: bytes) -> list[tuple[int, bytes]]:
    """Return status and body of each answer."""
    return [answer[:2] for answer in answers_in(sent)]


def exchange(*pieces: bytes) -> list[tuple[int, bytes]]:
    """Return the answers of an endpoint of its own to `pieces`, sent one after the other."""

    async def story() -> bytes:
        async with serving(*ROUTES) as served:
            sent = await asked(served, *pieces)
            assert served.body_bytes == 0
            return sent

    return answers(asyncio.run(story()))
