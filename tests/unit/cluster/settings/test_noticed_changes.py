"""Changes of other brokers, heard by notices: they count as read once they are taken up."""

import asyncio
from collections.abc import Callable, Iterable

from headrace.cluster.settings.noticed_changes import NoticedChanges
from headrace.cluster.store.notices import Notices
from headrace.ports.store import SessionLost
from headrace.testing.clock import SimClock
from headrace.testing.sim.ensemble import Ensemble
from tests.support.net.net import until

ROOT = "/changes"


def test_a_notice_that_could_not_be_taken_up_is_read_again() -> None:
    async def story() -> None:
        store = Ensemble(1).session()
        await store.create(ROOT, b"", parents=True)
        taken: list[list[str]] = []
        away = True

        async def read(told: Iterable[str]) -> None:
            if away:
                raise SessionLost("away")
            taken.append([*told])

        notices: Notices[str] = Notices(store, ROOT, bytes.decode, SimClock())
        changes = NoticedChanges(store, [notices], read, asyncio.Lock(), "changes wait")
        watchers: list[Callable[[str], None]] = []

        def watch(path: str, changed: Callable[[str], None]) -> Callable[[], None]:
            watchers.append(changed)
            return lambda: None

        store.watch = watch  # type: ignore[method-assign]
        await store.create(f"{ROOT}/n", b"first", sequential=True)
        changes.start()
        await asyncio.sleep(0.05)
        assert taken == []
        away = False
        await store.create(f"{ROOT}/n", b"second", sequential=True)
        watchers[0](ROOT)
        await until(lambda: bool(taken))
        assert taken == [["first", "second"]]
        watchers[0](ROOT)
        await until(lambda: len(taken) > 1)
        assert taken[1:] == [[]], "once"
        changes.stop()

    asyncio.run(story())
