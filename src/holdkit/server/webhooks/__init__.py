"""Webhooks: the journal, delivered. Signed the Standard Webhooks way, in a CloudEvents envelope, at least once, in order per
hook; retried, then parked; never to an address that is not public unless it is allowed by name."""
