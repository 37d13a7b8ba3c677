"""State that lives in this process: tables, reads and the batch, shared by the engines that keep everything in memory.

Not an engine itself: what a batch must do before it counts is `persist`, and where entries are read from is `Journal`.
"""
