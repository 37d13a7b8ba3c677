"""The kernel: the queue, group commit, retries, context, sweeping, following, listening. It holds no rule."""
