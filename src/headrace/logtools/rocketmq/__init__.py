"""The store of a stopped RocketMQ broker as a log directory: `headrace rocketmq move`.

* `store` the files of a store, message by message; `waiting` messages that are not in their topics
* `plan` the contents of a store and what becomes of it; `plan_text` the plan in words
* `write` the partitions of the new directory; `questions` what a broker on it stores after that
"""
