# Generated from ../_async/__init__.py by tools/gen_sync.py: do not edit.
"""The code that exists for threads and for tasks: written once, as async; `make gen` generates `_sync` from it."""
