"""Parts of a running queue (`hosted_queue`) and of its host (`queue_host`).

pausing_queue     a queue that stands still while its broker may not be its only leader
batch_queue       record batches of other brokers
purging_queue     ready messages below a position, taken or purged in parts
closing_host      closes queues that stay declared
"""
