"""Mixed traffic from many client addresses of the loopback network.

Visitors arrive as a Poisson process whose rate goes up and down in waves, with bursts on top. Each
visit is a page, its assets, now and then an API call. Beside them run pollers, crawlers and a few
noisy clients: a scraper, a scanner and an application that retries too eagerly. Every client binds
its own 127.x.y.z, so nginx sees as many addresses as there are clients.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field

from examples.access_log.capture.website import ASSETS, DOWNLOADS, PAGES

BROWSERS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/131.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/17.4 Safari/605.1.15",
    "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 "
    "Mobile Safari/537.36",
)
SCANNED = ("/wp-login.php", "/.env", "/admin/", "/phpmyadmin/", "/.git/config", "/cgi-bin/test")
MISSING = ("/docs/upgrade.html", "/blog/winter.html", "/robots.txt", "/apple-touch-icon.png")
SINCE = "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n"
PAGE_WEIGHTS = (30, 14, 9, 7, 5, 9, 6, 4, 3, 5, 4, 3, 2, 2)
WAVE_S = 960.0  # one "day" of the site
BURSTS_S = ((240, 290), (930, 990), (1230, 1260), (1800, 1850))
ANSWER_S_MAX = 12.0


@dataclass
class Client:
    """One address with its habits; `get` sends a request and reads the whole answer."""

    address: str
    agent: str
    site: tuple[str, int]
    seen: set[str] = field(default_factory=set)
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def get(
        self,
        target: str,
        *,
        method: str = "GET",
        referer: str = "",
        body: int = 0,
        headers: str = "",
        patience_s: float = ANSWER_S_MAX,
    ) -> None:
        """Ask for `target`; a client out of patience hangs up, which nginx logs as 499."""
        head = f"{method} {target} HTTP/1.1\r\nHost: mill.example\r\nUser-Agent: {self.agent}\r\n"
        if referer:
            head += f"Referer: https://mill.example{referer}\r\n"
        if body:
            head += f"Content-Length: {body}\r\n"
        request = (head + headers + "\r\n").encode() + b"y" * body
        try:
            await asyncio.wait_for(self._exchange(request, method), patience_s)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            self.hang_up()

    async def send_garbage(self, raw: bytes) -> None:
        """Send what is no HTTP at all; nginx answers 400 and logs the bytes, escaped."""
        with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
            await asyncio.wait_for(self._exchange(raw, "GET"), 2.0)
        self.hang_up()

    async def _exchange(self, request: bytes, method: str) -> None:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                *self.site, local_addr=(self.address, 0), limit=1 << 18
            )
        assert self._reader is not None
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head[9:12])
        left = 0
        if method != "HEAD" and status not in (204, 304):
            left = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0")
        while left > 0:
            chunk = await self._reader.read(min(left, 1 << 17))
            if not chunk:
                raise ConnectionResetError("closed inside an answer")
            left -= len(chunk)
        if b"connection: close" in head:
            self.hang_up()

    def hang_up(self) -> None:
        """Close the connection, whatever was under way on it."""
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None


class Town:
    """All clients, and what each of them does until the capture ends."""

    def __init__(self, site: tuple[str, int], seconds: float, seed: int) -> None:
        self._site = site
        self._seconds = seconds
        self._rng = random.Random(seed)
        self._started = time.monotonic()
        self._visitors = [self._client(f"127.10.{i // 250}.{i % 250 + 1}") for i in range(600)]
        self._weights = [1.0 / (i + 8) ** 0.7 for i in range(600)]
        self._busy: set[str] = set()

    async def run(self) -> None:
        """Drive everything for the asked time, then let what is under way finish."""
        pollers = [self._poll(i) for i in range(16)]
        crawlers = [self._crawl(i) for i in range(3)]
        noisy = [self._scrape(), self._scan(), self._retry(), self._misspeak()]
        await asyncio.gather(self._arrivals(), *pollers, *crawlers, *noisy)
        await asyncio.sleep(3)

    def _client(self, address: str, agent: str = "") -> Client:
        return Client(address, agent or self._rng.choice(BROWSERS), self._site)

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _open(self) -> bool:
        return self._elapsed() < self._seconds

    def _rate(self) -> float:
        """Visits per second now."""
        at = self._elapsed()
        wave = 1.0 + 0.5 * math.sin(2 * math.pi * at / WAVE_S - 1.2)
        burst = 2.2 if any(start <= at < end for start, end in BURSTS_S) else 1.0
        return 19.0 * wave * burst

    async def _arrivals(self) -> None:
        visits: set[asyncio.Task[None]] = set()
        while self._open():
            await asyncio.sleep(self._rng.expovariate(self._rate()))
            drawn = self._rng.choices(self._visitors, self._weights, k=8)
            who = next((v for v in drawn if v.address not in self._busy), None)
            if who is None:
                continue
            task = asyncio.create_task(self._visit(who))
            visits.add(task)
            task.add_done_callback(visits.discard)
        await asyncio.gather(*visits)

    async def _visit(self, who: Client) -> None:
        self._busy.add(who.address)
        try:
            page = ""
            for _ in range(self._rng.randrange(1, 5)):
                before, page = page, self._rng.choices(PAGES, PAGE_WEIGHTS)[0]
                campaign = f"?utm_source=mail&n={self._rng.randrange(9)}"
                await who.get(page + (campaign if self._chance(0.04) else ""), referer=before)
                for asset in self._rng.sample(sorted(ASSETS), self._rng.randrange(0, 3)):
                    known = asset in who.seen and self._chance(0.8)
                    await who.get(asset, referer=page, headers=SINCE if known else "")
                    who.seen.add(asset)
                await asyncio.sleep(self._rng.uniform(0.3, 4.0))
            await self._errand(who, page)
        finally:
            who.hang_up()
            self._busy.discard(who.address)

    async def _errand(self, who: Client, page: str) -> None:
        """What a visitor does besides reading: mostly one thing of these, or nothing."""
        dice = self._rng.random()
        if dice < 0.22:
            await who.get(f"/api/search?q=part-{self._rng.randrange(400)}", referer=page)
        elif dice < 0.34:
            await who.get("/api/orders", method="POST", body=self._rng.randrange(80, 900))
        elif dice < 0.38:
            await who.get("/api/report", referer=page, patience_s=self._rng.choice((1.2, 12.0)))
        elif dice < 0.42:
            await who.get(self._rng.choice(MISSING))
        elif dice < 0.45:
            await who.get(self._rng.choice(("/old/faq.html", "/go", "/docs")), referer=page)
        elif dice < 0.456:
            part = "Range: bytes=0-65535\r\n" if self._chance(0.5) else ""
            await who.get(self._rng.choice(list(DOWNLOADS)), referer=page, headers=part)
        elif dice < 0.458:
            await who.get("/api/orders", method="POST", body=20_000)

    async def _poll(self, index: int) -> None:
        me = self._client(f"127.20.0.{index + 1}", "mill-panel/2.3")
        while self._open():
            await me.get("/api/status", method="HEAD" if index % 8 == 0 else "GET")
            await asyncio.sleep(self._rng.uniform(3.0, 5.0))
        me.hang_up()

    async def _crawl(self, index: int) -> None:
        agent = f"ExampleBot/1.{index} (+https://bot.example/about)"
        me = self._client(f"127.30.0.{index + 1}", agent)
        while self._open():
            await me.get(self._rng.choice(PAGES + MISSING))
            await asyncio.sleep(self._rng.expovariate(0.9))
        me.hang_up()

    async def _scrape(self) -> None:
        """Reads the whole catalogue as fast as it is let: 429 after the first second."""
        me = self._client("127.40.0.1", "python-requests/2.32.3")
        for start, end in ((330, 420), (1100, 1160), (1680, 1760)):
            await self._episode(me, start, end, 90.0, [f"/products/?page={i}" for i in range(40)])

    async def _scan(self) -> None:
        me = self._client("127.40.0.2", "Mozilla/5.0 zgrab/0.x")
        for start, end in ((560, 600), (1530, 1575)):
            await self._episode(me, start, end, 30.0, list(SCANNED))

    async def _retry(self) -> None:
        """An application that answers every failure with a faster retry."""
        me = self._client("127.40.0.3", "order-sync/0.9 (okhttp)")
        while self._open():
            failing = 700 <= self._elapsed() < 860 or 1410 <= self._elapsed() < 1480
            await me.get("/api/orders", method="POST", body=120)
            await asyncio.sleep(0.02 if failing else self._rng.uniform(2.0, 4.0))
        me.hang_up()

    async def _episode(
        self, me: Client, start: float, end: float, rate: float, targets: list[str]
    ) -> None:
        await asyncio.sleep(max(0.0, min(start, self._seconds) - self._elapsed()))
        while self._open() and self._elapsed() < end:
            await me.get(self._rng.choice(targets))
            await asyncio.sleep(self._rng.expovariate(rate))
        me.hang_up()

    async def _misspeak(self) -> None:
        """TLS hellos and other protocols knocking at a plain HTTP port."""
        knocks = (
            b"\x16\x03\x01\x00\xf4\x01\x00\x00\xf0\x03\x03",
            b"HELP\r\n\r\n",
            b"\x03\x00\x00\x13\x0e\xe0\x00\x00\r\n",
            b'GET /"><script> HTTP/1.1\r\n\r\n',
        )
        while self._open():
            await asyncio.sleep(self._rng.expovariate(1 / 25))
            me = self._client(f"127.40.1.{self._rng.randrange(1, 12)}", "-")
            await me.send_garbage(self._rng.choice(knocks))

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability
