"""What each route does: a checked request into a call of the kernel, its result into an answer. No rule, no HTTP number of a
refusal: the kernel raises, and `holdkit.wire.problems` knows what to say."""
