"""`headrace consume --share`: print records acquired by a share group's member, and accept them."""

import signal
import time
from collections.abc import Mapping, Sequence

from headrace.cli.records.consume_outage import Outage
from headrace.cli.records.consume_printer import DamagedBytes, Printer
from headrace.client.admin.share_groups import describe_share_group
from headrace.client.client import Client
from headrace.client.consumer.damage import OF_DAMAGE
from headrace.client.consumer.share_consumer import RECORDS_MAX, ShareChunk, ShareConsumer
from headrace.client.consumer.share_member import ShareMember
from headrace.client.sync import run
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.nouns import TopicPartition
from headrace.terminal.failure import EXIT_FAILED, CommandError, line_of
from headrace.terminal.output import note


class ShareReader:
    """Fetches records as a share group's member, and accepts those that were printed."""

    def __init__(
        self, client: Client, topics: Sequence[str], group: str, outage_seconds: float | None
    ) -> None:
        """Create a member; `outage_seconds`: how long it waits for unreachable brokers."""
        self.client = client
        self.member = ShareMember(client, group, topics)
        self.consumer = ShareConsumer(client, self.member)
        self._outage = Outage(client)
        self._outage_seconds = outage_seconds
        self._chunks: list[ShareChunk] = []
        """Chunks fetched last, not acknowledged yet."""

    def join(self) -> None:
        """Join the group; note where a new group starts."""
        group = self.member.group
        if run(describe_share_group(self.client, group)) is None:
            note(
                f"share group {group} is new: it starts at its share.auto.offset.reset, by default"
                " at the end"
            )
        run(self.member.heartbeat())
        self._outage.await_brokers(self._outage_seconds)

    def poll(self, left: int | None) -> list[ShareChunk]:
        """Fetch the next chunks, of `left` records at most (None: no limit).

        CommandError: damage.
        """
        wanted = RECORDS_MAX if left is None else min(left, RECORDS_MAX)
        try:
            self._chunks = run(self.consumer.poll(records_max=wanted))
        except ApiError as error:
            if error.code in OF_DAMAGE:
                raise self._damaged(error.message or error.code.name) from None
            raise
        self._outage.brokers_answer()
        return self._chunks

    def settle(self, printed: Mapping[TopicPartition, int]) -> None:
        """Accept the printed records of the chunks fetched last."""
        # A request interrupted by a signal loses its connection: its records would come again.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            failed = run(self.consumer.acknowledge(_ends(self._chunks, printed)))
            self._chunks = []
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        self._tell(failed)

    def close(self, printed: Mapping[TopicPartition, int]) -> None:
        """Accept printed records, release the others, and leave the group.

        Does not wait for unreachable brokers; ClientError if the group could not be left.
        """
        if self.member.joined:
            self._outage.hurry()
            self._tell(run(self.consumer.close(_ends(self._chunks, printed))))

    def _damaged(self, what: str) -> CommandError:
        group = self.member.group
        return CommandError(
            f"{what}; the records are damaged or the broker's disk failed: its log has the"
            " reason and the file. To let the group continue after them: headrace share reset"
            f" {group} --to OFFSET --topics TOPIC:PARTITION --execute",
            EXIT_FAILED,
        )

    def print(self, chunk: ShareChunk, printer: Printer) -> bool:
        """Print a chunk's records; return False once enough are printed. CommandError: damage."""
        try:
            return printer.print(chunk)
        except DamagedBytes as met:
            raise self._damaged(f"{met.partition} at offset {met.offset}: {met}") from None

    def _tell(self, failed: Mapping[TopicPartition, HeadraceError]) -> None:
        for partition, error in sorted(failed.items()):
            note(
                f"{partition}: the records printed last could not be accepted"
                f" ({line_of(error)[0]});"
                " the group delivers them again"
            )


def consume_share(reader: ShareReader, printer: Printer, seconds: float | None) -> None:
    """Print records as the group delivers them, until enough are printed or Ctrl-C.

    `seconds`: stop after this long without a record.
    """
    reader.join()
    try:
        last = time.monotonic()
        while seconds is None or time.monotonic() - last < seconds:
            printer.printed.clear()  # offsets may be delivered again, so older entries mean nothing
            for chunk in reader.poll(printer.left):
                last = time.monotonic()
                if not reader.print(chunk, printer):
                    return
            reader.settle(printer.printed)
    finally:
        reader.close(printer.printed)


def _ends(
    chunks: Sequence[ShareChunk], printed: Mapping[TopicPartition, int]
) -> list[tuple[ShareChunk, int]]:
    """Return the chunks with printed records, each with the offset after the last of them."""
    return [(chunk, printed[chunk.partition]) for chunk in chunks if chunk.partition in printed]
