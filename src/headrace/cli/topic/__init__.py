"""`headrace topic`: create, list, describe, alter, trim, delete and export topics.

topic      the verbs, and those that make, show, alter and delete
offsets    `offsets` and `trim`
export     `export`: records as files for other tools
"""
