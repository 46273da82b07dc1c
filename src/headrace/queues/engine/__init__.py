"""Queues at work: what is published goes to whom it is due.

message_queue     one queue: messages, consumers and limits together
ready_messages    what waits in it, by priority; what expires or is too much
priority_level    the ready messages of one priority, in the order in which they are delivered
requeued_positions  positions that were requeued
consumers         which have credit, and whose turn it is
deliveries        messages become deliveries
dead_letters      why messages die; dead_messages: what their headers say of it
dead_letter_publishing  dead letters on their way, also to queues that refuse them for a time
hosted_queue      a queue with its timer and its stores, as a vhost's host has it
stream_queue      a queue whose messages stay, and whose consumers read from anywhere
closed_queue      a queue that was closed because its state contradicts itself
delivery_turns    which queue hands out next
queue_host        all queues of a vhost; virtual_hosts: all vhosts of a broker
"""
