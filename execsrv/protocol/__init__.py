"""The words of the protocol as Python values: methods' params and results, and the events of a process.

Server and client share these. Field names are the wire's names in snake_case (``wire.py`` converts); the JSON Schema
files say which values are allowed. ``bytes`` travel as base64 in results and events; in params the base64 text is
kept, since only the handler may judge it. Nobody changes one: they are not frozen only because making so many frozen
classes would be a tenth of the start-up.
"""
