"""The wire contract, held against the released SDKs and the published schema.

Each SDK plays a tour of all its operations in a process of its own; what the server answers is
recorded here, checked against the schema, and counted for docs/compatibility.md.
"""
