"""The coloured source, written once, as async; `_sync` is generated from it."""
