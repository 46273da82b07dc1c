"""`headrace topic`: create, list, describe, alter, trim, delete and export topics.

topic      the tree of commands; create, list, describe, alter, delete offsets    `offsets` and
`trim` export     `export`: records as files for other tools
"""
