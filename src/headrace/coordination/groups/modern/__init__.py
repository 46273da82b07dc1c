"""What consumer groups (KIP-848) and share groups (KIP-932) have in common: the modern group.

The coordinator decides, members send heartbeats and follow. The *group epoch* grows when members,
subscriptions or topics change; the *target epoch* is the group epoch the target was made for.

    changes            what happens to a group of any kind, as values; each kind adds its own
    group              a group: changes applied, each answering with what takes it back
    groups             those of one shard, by id
    group_change       what one request or timer changes: applied, appended, taken back if refused
    heartbeat          an answer that goes out once what it says is committed
    epochs             when the group's epoch grows
    target_assignment  the target: at most one in so many milliseconds, large ones on a thread
    timers, fencing    what happens by itself: members that were not heard of are out
    ending             a group comes and goes

A kind (`groups.consumer`, `groups.share`) has its own members, records, question to its assignor,
and steps of a member towards its target. Kafka's ModernGroup settles what is the same.
"""
