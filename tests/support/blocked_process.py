"""A process that blocks for a unit, says its number when it has it, and releases it when told to; with times that a test can wait for.

python -m tests.support.blocked_process URL PLACE OFFER RENEWAL
"""

from __future__ import annotations

import sys

import holdkit
from holdkit.core.model import SECOND
from holdkit.kernel._sync import blocking


def main(url: str, place: str, offer: str, renewal: str) -> None:
    blocking.PLACE, blocking.OFFER = round(float(place) * SECOND), round(float(offer) * SECOND)
    blocking.RENEWAL = float(renewal)
    with holdkit.connect(url) as hk, hk.lease("gpu", 1, ttl=60, wait="10m") as lease:
        sys.stdout.write(f"{lease.hold.raw.number}\n")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
