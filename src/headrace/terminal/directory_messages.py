"""Messages about log directories that failed or are low on space."""

from collections.abc import Sequence

from headrace.client.log_directories import FREE_BYTES_MIN, Directory, LowDirectory

NAMED_MAX = 5
"""The most directories that a message names; `headrace disk` lists all."""


def low_message(low: Sequence[LowDirectory]) -> str:
    """Return the message about log directories that refuse records for lack of space, or ''."""
    if not low:
        return ""
    named = [
        f"broker {place.broker} {place.log_dir.path} ({place.log_dir.free} bytes free, {least} set)"
        for place, least in low[:NAMED_MAX]
    ]
    more = f" and {len(low) - NAMED_MAX} more" if len(low) > NAMED_MAX else ""
    subject = "1 log directory has" if len(low) == 1 else f"{len(low)} log directories have"
    them = "it" if len(low) == 1 else "them"
    return (
        f"{subject} less free space than {FREE_BYTES_MIN}, and Produce requests to {them} fail"
        f" (KAFKA_STORAGE_ERROR): {', '.join(named)}{more}; free some space, or shorten"
        " retention: headrace topic alter NAME -c retention.ms=…"
    )


def failed_message(found: Sequence[Directory]) -> str:
    """Return the message about log directories that have failed, or an empty text."""
    failed = [each for each in found if each.log_dir.failed]
    if not failed:
        return ""
    named = ", ".join(f"broker {each.broker} {each.log_dir.path}" for each in failed[:NAMED_MAX])
    more = f" and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
    what = "1 log directory has" if len(failed) == 1 else f"{len(failed)} log directories have"
    return (
        f"{what} failed, and the replicas in it are offline: {named}{more}; the broker's log"
        " has the reason; repair the disk, then restart the broker"
    )
