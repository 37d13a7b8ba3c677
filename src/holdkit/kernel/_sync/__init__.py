# Generated from ../_async/__init__.py by tools/gen_sync.py: do not edit.
"""The coloured source, written once, as async; `_sync` is generated from it."""
