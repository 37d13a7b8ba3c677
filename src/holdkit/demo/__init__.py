"""The guided demo: a flash sale in the terminal, on one SQLite file, with everything going wrong that usually does.

Uses only what any application could use: `connect_async` and the kernel's verbs. Run it with ``python -m holdkit.demo``.
"""
