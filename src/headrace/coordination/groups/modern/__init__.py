"""Modern groups: code shared by consumer groups (KIP-848) and share groups (KIP-932).

The coordinator computes the assignment; members send heartbeats and follow it. The *group epoch*
grows when members, subscriptions or topics change. The *target epoch* is the group epoch for which
the target assignment was computed.

    changes            changes of any group, as values; each kind adds its own
    group              a group: applies changes, each returning the change that undoes it
    groups             the modern groups of one shard, by id
    group_change       the changes of one request or timer: applied, appended, undone on failure
    heartbeat          the response to a heartbeat, sent once its changes are committed
    epochs             when the group epoch grows
    target_assignment  computes the target assignment, rate-limited, large ones on a thread
    timers, fencing    timers that remove members which miss their deadlines
    ending             creation and deletion of a group

Each kind (`groups.consumer`, `groups.share`) has its own members, records, assignor input and
reconciliation. The reference is Kafka's ModernGroup.
"""
