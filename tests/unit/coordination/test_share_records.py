"""Which records of `__consumer_offsets` are a share group's."""

from headrace.coordination.groups.share import records
from headrace.coordination.groups.share.group import ShareGroup


def test_a_share_groups_records_have_the_types_of_kip_932() -> None:
    assert list(records.KEY_TYPES) == [10, 11, 12, 13, 14, 15]


def test_a_new_group_has_the_metadata_hash_of_no_topics() -> None:
    assert ShareGroup("g").metadata_hash == 0
