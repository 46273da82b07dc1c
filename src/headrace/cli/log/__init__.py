"""`headrace log`: tools that work on a broker's files, not through a broker.

log         the tree of commands dump        `dump`: print the contents of files verify
`verify`: check files for damage repair      `repair`: repair a log directory transfer    `import`
and `export`: from and to a Kafka log directory copying     copies of files tools       shared:
whether a broker runs, a progress bar, counts in words
"""
