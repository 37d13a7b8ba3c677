"""The core: every rule, and nothing else.

`decide` turns a view and commands into outcomes and journal entries; `fold` turns entries into state. Imports no clock,
no randomness, no I/O, no thread, no logging, no driver: a test proves it.
"""
