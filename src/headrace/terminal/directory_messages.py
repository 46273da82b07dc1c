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
        f"{_name(place)} ({place.log_dir.free} bytes free, {least} set)" for place, least in low
    ]
    them = "it" if len(low) == 1 else "them"
    return (
        f"{_subject(len(low))} less free space than {FREE_BYTES_MIN}, and Produce requests to"
        f" {them} fail (KAFKA_STORAGE_ERROR): {_listed(named)}; free some space, or shorten"
        " retention: headrace topic alter NAME -c retention.ms=…"
    )


def failed_message(found: Sequence[Directory]) -> str:
    """Return the message about log directories that have failed, or an empty text."""
    failed = [each for each in found if each.log_dir.failed]
    if not failed:
        return ""
    named = _listed([_name(each) for each in failed])
    return (
        f"{_subject(len(failed))} failed, and the replicas in it are offline: {named}; the broker's"
        " log has the reason; repair the disk, then restart the broker"
    )


def _subject(count: int) -> str:
    return "1 log directory has" if count == 1 else f"{count} log directories have"


def _name(place: Directory) -> str:
    return f"broker {place.broker} {place.log_dir.path}"


def _listed(named: Sequence[str]) -> str:
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return f"{', '.join(named[:NAMED_MAX])}{more}"
