"""`headrace log`: the tools that work on a broker's files, not through a broker.

log         the verbs
dump        `dump`: what stands in the files
verify      `verify`: is what lies on the disk sound?
repair      `repair`: mend a log directory
transfer    `import` and `export`: to and from a Kafka's log directory
copying     how files are copied
tools       what they share: is a broker there, a progress bar, sums in words
"""
