"""Queues at work: what is published goes to whom it is due.

message_queue     one queue: messages, consumers and limits together
ready_messages    what waits in it, by priority; what expires or is too much
message_level     the ready messages of one priority, in the order in which they go out
returned          positions that came back
unacked           a channel's delivery tags: who holds which message of which queue
consumers         who may take, and whose turn it is
deliveries        messages become deliveries
dead_letters      why messages die; dead_messages: what their headers say of it
dead_letter_publishing  dead letters on their way, also to queues that refuse them for a time
hosted_queue      a queue with its timer and its stores, as a vhost's host has it
stream_queue      one of the kind whose messages stay, and whose consumers read from anywhere
delivery_turns    which queue hands out next
queue_host        all queues of a vhost; virtual_hosts: all vhosts of a broker
"""
