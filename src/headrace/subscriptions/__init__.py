"""Consumer groups whose clients share queues among themselves: members, locks, offsets, rules."""
