"""Conversations between the brokers of a cluster.

conversation         questions of one kind to one peer: gathered, bounded, closed
registrations        one conversation for each registration of a broker
peer_call            a request among brokers, for `client.transport.peer.Peer` to ask
order_channels       the controller's orders for each broker: in sequence, until they arrive
order_messages       a controller's orders as requests, and back (pure)
controller_channel   the controller as other brokers ask it
controller_link      what a broker asks the controller: itself where it is that, or the other broker
coordinator_peers    what coordinators ask other brokers, made when first needed:
  remote_transactions, pending_markers     markers, and partitions of transactions
  remote_share_states, share_state_calls   state of share groups
  remote_log_ends                          high watermarks
peer_port            what frontends may ask in the name of another broker
peer_service         this broker's answers to that
"""
