"""Queues that another broker leads: the second half of the port, over two conversations.

    client's broker (home)                                   leader of the queue
    channel -> RemoteQueue -> HomeSession  == calls ==>   LeaderSession -> QueueHost -> HostedQueue
    channel <- RemoteQueue <- HomeSession  <= events ==   LeaderSession <- RemoteChannel <- queue

Calls and events are numbered in the session. The home repeats calls that were not answered and the
leader skips those that it has; events likewise, in the other direction. So each is carried out
once, in order, over connections that may be lost. A session that has ended never continues: the
leader requeues its deliveries, the home cancels its consumers.
"""
