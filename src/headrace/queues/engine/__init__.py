"""Running queues: deliveries, credit, settlements, expiry and dead letters.

message_queue     a queue: ready messages, consumers and limits together
ready_messages    ready messages of all priorities; expiry, length limits
priority_level    ready messages of one priority, in the order of delivery
requeued_positions  positions that were requeued
consumers         consumers with credit, and the order of their turns
deliveries        messages become deliveries
dead_letters      reasons and `x-death` headers; dead_messages: dead letters as messages
dead_letter_publishing  publishing dead letters, also again to queues that refused them
hosted_queue      a queue with its timer and its stores, as a vhost's host has it
stream_queue      a stream: messages stay, and consumers read from any offset
closed_queue      a queue that was closed because its state contradicts itself
delivery_turns    the order in which queues deliver
queue_host        all queues of a vhost; virtual_hosts: all vhosts of a broker
parts/            parts of hosted_queue and queue_host
"""
