"""Every document that leaves the process, once: what callers send and what they get, as msgspec structs.

The server encodes them, the client decodes them, the command line prints them with `--json`, the OpenAPI document describes
them, and the dashboard's types are generated from that. A module holds the documents of one subject, with the functions that
build them from results of the kernel. There is no rule here.

A body or a query refuses unknown fields, so that a misspelt name is an error and not ignored. An answer may gain fields: a decoder
ignores those that it does not know.
"""
