"""Parcels posted with pika: one publish for a work queue and for a pipeline. README.md tells more.

post.py    publishes parcels to an exchange that stores each message in a topic, too
pack.py    works on the queue, as RabbitMQ clients do
pipeline/  Spark: a table of parcels, from the topic
"""
