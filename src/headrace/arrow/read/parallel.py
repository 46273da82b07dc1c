"""Read iterators of RecordBatches one after the other, or several in parallel."""

from collections.abc import Callable, Iterator, Sequence
from queue import Full, Queue, SimpleQueue
from threading import Event, Thread

import pyarrow as pa

BatchSource = Callable[[], Iterator[pa.RecordBatch]]

_WAITING_PER_THREAD = 4
_LOOK_UP_SECONDS = 0.2


def in_turn(sources: Sequence[BatchSource]) -> Iterator[pa.RecordBatch]:
    """Yield all batches of the first source, then all of the second, and so on."""
    for source in sources:
        yield from source()


def side_by_side(sources: Sequence[BatchSource], threads: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches of up to `threads` sources in parallel, in the order of arrival.

    A few batches per thread are buffered. The first error of any source ends the iteration.
    """
    todo: SimpleQueue[BatchSource | None] = SimpleQueue()
    ready: Queue[pa.RecordBatch | BaseException | None] = Queue(threads * _WAITING_PER_THREAD)
    stop = Event()
    for source in sources:
        todo.put(source)
    workers = [
        Thread(target=_work, args=(todo, ready, stop), name=f"arrow-{number}", daemon=True)
        for number in range(min(threads, len(sources)))
    ]
    for thread in workers:
        todo.put(None)
        thread.start()
    left = len(workers)
    try:
        while left:
            item = ready.get()
            if item is None:
                left -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        stop.set()
        for thread in workers:
            thread.join()


def _work(
    todo: "SimpleQueue[BatchSource | None]",
    ready: "Queue[pa.RecordBatch | BaseException | None]",
    stop: Event,
) -> None:
    try:
        while (source := todo.get()) is not None:
            for batch in source():
                if not _put(ready, batch, stop):
                    return
    except BaseException as error:  # noqa: BLE001 - handed to who reads
        _put(ready, error, stop)
    finally:
        _put(ready, None, stop)


def _put(
    ready: "Queue[pa.RecordBatch | BaseException | None]",
    item: pa.RecordBatch | BaseException | None,
    stop: Event,
) -> bool:
    """Queue an item for the consumer; return False once it has stopped."""
    while not stop.is_set():
        try:
            ready.put(item, timeout=_LOOK_UP_SECONDS)
        except Full:
            continue
        return True
    return False
