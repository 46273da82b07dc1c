"""Requests between the brokers of a cluster.

conversation         requests of one kind to one peer: batched, bounded, closed together
registrations        one conversation for each registration of a broker
peer_call            an inter-broker request in the form that `client.transport.peer.Peer` sends
order_channels       the controller's orders to each broker: in sequence, resent until answered
order_messages       a controller's orders encoded as requests, and decoded (pure functions)
controller_channel   requests to the controller on another broker
controller_link      requests to the controller, on this or another broker
queue_topic_calls    those about topics of queues
coordinator_peers    requests of the coordinators to other brokers, created on first use:
  remote_transactions, pending_markers     transaction markers, partitions of transactions
  remote_share_states, share_state_calls   persisted state of share groups
  remote_log_ends                          high watermarks
peer_port            the interface by which frontends serve requests of other brokers
peer_service         its implementation on this broker
"""
