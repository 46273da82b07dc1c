"""`headrace consume --share`: print what a share group has for this member, and accept it."""

import signal
import time
from collections.abc import Mapping, Sequence

from headrace.cli.records.consume_outage import Outage
from headrace.cli.records.consume_printer import DamagedBytes, Printer
from headrace.cli.shared.failure import EXIT_FAILED, CommandError, line_of
from headrace.cli.shared.output import note
from headrace.client.admin.share_groups import describe_share_group
from headrace.client.client import Client
from headrace.client.consumer.damage import OF_DAMAGE
from headrace.client.consumer.share_consumer import RECORDS_MAX, ShareChunk, ShareConsumer
from headrace.client.consumer.share_member import ShareMember
from headrace.client.sync import run
from headrace.model.errors import ApiError, HeadraceError
from headrace.model.nouns import TopicPartition


class ShareReader:
    """Chunks of what a share group has for a member, and how far each was printed."""

    def __init__(
        self, client: Client, topics: Sequence[str], group: str, outage_seconds: float | None
    ) -> None:
        """Brokers that are gone are waited for, for `outage_seconds` once the member has joined."""
        self.client = client
        self.member = ShareMember(client, group, topics)
        self.consumer = ShareConsumer(client, self.member)
        self._outage = Outage(client)
        self._outage_seconds = outage_seconds
        self._chunks: list[ShareChunk] = []
        """Printed, or being printed, and not settled yet."""

    def join(self) -> None:
        """Be a member; say where a group that is new begins."""
        group = self.member.group
        if run(describe_share_group(self.client, group)) is None:
            note(
                f"share group {group} is new: it starts at its share.auto.offset.reset, by default"
                " at the end"
            )
        run(self.member.heartbeat())
        self._outage.await_brokers(self._outage_seconds)

    def poll(self, left: int | None) -> list[ShareChunk]:
        """Fetch the next chunks, of `left` records at most."""
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
        """Accept what was printed of the chunks polled last."""
        # An interrupted request ends its connection: what it says would be open, and come again.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            failed = run(self.consumer.acknowledge(_ends(self._chunks, printed)))
            self._chunks = []
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        self._tell(failed)

    def close(self, printed: Mapping[TopicPartition, int]) -> None:
        """Accept what was printed, give back the rest, and leave; waits for no broker that is gone.

        ClientError where the group could not be left.
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
        """Print a chunk's records; False when enough have been printed. CommandError: damage."""
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
    """Print records as the group hands them out, until enough are printed or Ctrl-C.

    `seconds`: end when nothing came for so long.
    """
    reader.join()
    try:
        last = time.monotonic()
        while seconds is None or time.monotonic() - last < seconds:
            printer.printed.clear()  # offsets come again here: what was printed before says nothing
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
    """Return chunks with the offset behind what was printed of each; none where nothing was."""
    return [(chunk, printed[chunk.partition]) for chunk in chunks if chunk.partition in printed]
