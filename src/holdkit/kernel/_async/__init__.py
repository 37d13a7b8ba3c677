"""The code that exists for threads and for tasks: written once, as async; `make gen` generates `_sync` from it."""
