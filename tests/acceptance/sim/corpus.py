"""Lives in which the simulator once found a bug, shrunk, as explicit plans: the plan generator may change, these may not.
(Where a frame's form changes, a fault may hit other bytes: then its place is chosen anew, so that the bug is found again.)

Each is named for the bug it found; `canaries.py` can plant that bug again.
"""

from __future__ import annotations

from typing import Final

from holdkit.core.bounds import Limits
from holdkit.core.commands import (
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    Group,
    PlaceHold,
    PutRecord,
    ReleaseHold,
    ReturnUnits,
)
from holdkit.core.model import Leg
from holdkit.testing.sim.faults import Fault
from holdkit.testing.sim.plan import Apply, Plan, Reopen, TakeSnapshot

CORPUS: Final[dict[str, Plan]] = {
    "names not synced at opening": Plan(
        seed=42,
        limits=Limits(
            max_pools=3,
            max_holds=1000,
            max_operations=1000,
            retry_window=10000,
            retention=10000,
            max_ttl=1000,
            max_lifetime=2000,
            max_due=1000,
        ),
        segment_bytes=1048576,
        steps=(
            Fault(kind="rot", after=7, dice=947468699, times=2),
            Apply(
                slot=1005079,
                groups=(
                    Group(
                        commands=(
                            ReturnUnits(id="0000000003eb762b8ffb721718e856dc", owner="me"),
                            PlaceHold(
                                legs=(Leg(pool="a", quantity=2, create_with_total=3),),
                                id="0000000003ed7d6c9eba3aa142582b82",
                                owner="you",
                                ttl_slots=1,
                            ),
                        )
                    ),
                ),
            ),
            Fault(kind="cut", after=2, dice=727008837),
            Apply(
                slot=1005080,
                groups=(
                    Group(
                        commands=(
                            CreatePool(id="b", total=4),
                            ReturnUnits(
                                id="0000000003eb762b8ffb721718e856dc",
                                owner="you",
                                op="op36",
                                fingerprint="69a6f57f0a48f0dc21d45ad67cf96e91",
                            ),
                            PutRecord(
                                kind="note",
                                id="n",
                                body=None,
                                op="op38",
                                fingerprint="fd379b756314f9dee77560f470db9d07",
                            ),
                            PlaceHold(
                                legs=(
                                    Leg(pool="a", quantity=1, create_with_total=3),
                                    Leg(pool="b", quantity=5, create_with_total=3),
                                ),
                                id="0000000003eb762b8ffb721718e856dc",
                                owner="you",
                                ttl_slots=200,
                                tenant="acme",
                                op="op17",
                                fingerprint="c90d297045189fe90e02990d062ace5a",
                            ),
                            ConfirmHold(id="0000000003ed73d99c3d59fc980079e2", owner="me"),
                        )
                    ),
                    Group(commands=(PutRecord(kind="note", id="n", body='"x"', if_version=1, tenant="acme"),)),
                ),
            ),
        ),
        first_fault=Fault(kind="cut", after=1, dice=3716221121),
    ),
    "cache of an unsealed log trusted": Plan(
        seed=204,
        limits=Limits(
            max_pools=3,
            max_holds=3,
            max_operations=4,
            retry_window=500,
            retention=10000,
            max_ttl=1000,
            max_lifetime=2000,
            max_due=1,
        ),
        segment_bytes=400,
        steps=(
            Apply(
                slot=1000000,
                groups=(
                    Group(
                        commands=(
                            CreatePool(id="a", total=11),
                            CreatePool(id="b", total=9),
                            CreatePool(id="c", total=2),
                        )
                    ),
                ),
            ),
            Fault(kind="error", after=6, dice=3376816908, times=4),
            Apply(
                slot=1000700,
                groups=(
                    Group(
                        commands=(
                            ExtendHold(
                                id="0000000003e87aa1a2048558d830e379",
                                owner="me",
                                by_slots=900,
                                op="op13",
                                fingerprint="0dc21b9c48992269c1dc1dc327e6898c",
                            ),
                        ),
                        atomic=True,
                    ),
                    Group(
                        commands=(
                            PlaceHold(
                                legs=(
                                    Leg(pool="b", quantity=1),
                                    Leg(pool="a", quantity=5),
                                    Leg(pool="c", quantity=1, create_with_total=3),
                                ),
                                id="0000000003e87e549ffb4bc9c0b74c76",
                                owner="me",
                                ttl_slots=1,
                            ),
                        )
                    ),
                ),
            ),
            Fault(kind="cut", after=1, dice=2313533829),
            Apply(
                slot=1001420,
                groups=(
                    Group(
                        commands=(
                            PlaceHold(
                                legs=(
                                    Leg(pool="c", quantity=2, create_with_total=3),
                                    Leg(pool="a", quantity=2, create_with_total=3),
                                ),
                                id="0000000003e87570bf016b034e1ca275",
                                owner="me",
                                ttl_slots=5,
                                op="op6",
                                fingerprint="b52e234e31065f401e2616f542ace25b",
                            ),
                        )
                    ),
                ),
            ),
        ),
    ),
    "retried fsync": Plan(
        seed=56,
        limits=Limits(
            max_pools=6,
            max_holds=8,
            max_operations=4,
            retry_window=50,
            retention=10000,
            max_ttl=1000,
            max_lifetime=2000,
            max_due=1,
        ),
        segment_bytes=3000,
        steps=(
            Fault(kind="cut", after=5, dice=519967174, times=2),
            TakeSnapshot(slot=1000024),
            Fault(kind="cut", after=4, dice=3052104701),
            TakeSnapshot(slot=1000024),
        ),
    ),
    "doubt forgotten": Plan(
        seed=15,
        limits=Limits(
            max_pools=1000,
            max_holds=8,
            max_operations=1000,
            retry_window=50,
            retention=10000,
            max_ttl=1000,
            max_lifetime=2000,
            max_due=1,
        ),
        segment_bytes=3000,
        steps=(
            Fault(kind="error", after=1, dice=3770397563),
            Apply(
                slot=1002983,
                groups=(
                    Group(
                        commands=(
                            PlaceHold(
                                legs=(Leg(pool="c", quantity=5),),
                                id="0000000003e8743fa8cf08d3a3d8b892",
                                owner="me",
                                ttl_slots=200,
                                op="op5",
                                fingerprint="4651befd4d42a08e16b8a05c2b7eea79",
                            ),
                        )
                    ),
                ),
            ),
            Apply(
                slot=1003003,
                groups=(
                    Group(
                        commands=(
                            ConfirmHold(
                                id="0000000003e97a8fa77b2f4a250b0bec",
                                owner="me",
                                tenant="acme",
                                op="op8",
                                fingerprint="234fa8f4400052b2b51fed1c94d42a85",
                            ),
                            CreatePool(id="a", total=6, op="op25", fingerprint="642c594b1cbadd1b66826560161e5210"),
                        )
                    ),
                    Group(
                        commands=(
                            ConfirmHold(
                                id="0000000003e8705997dee3bae1c2a4ac",
                                owner="me",
                                op="op36",
                                fingerprint="5ae885d1cfd5b9894efb38420d099234",
                            ),
                            CreatePool(id="a", total=6),
                            Consume(
                                legs=(Leg(pool="d", quantity=1, create_with_total=3),),
                                id="0000000003e87ae68d42995c87947534",
                                owner="me",
                                tenant="acme",
                            ),
                            PlaceHold(
                                legs=(Leg(pool="c", quantity=1),),
                                id="0000000003e87c3fb4d6323b0ccb5174",
                                owner="me",
                                ttl_slots=200,
                                op="op11",
                                fingerprint="3a08ece7dd9b2b295840057daa799e74",
                            ),
                            PutRecord(kind="note", id="n", body='"x"'),
                        )
                    ),
                ),
            ),
        ),
    ),
    "snapshot left as it is": Plan(
        seed=314,
        limits=Limits(
            max_pools=1000,
            max_holds=1000,
            max_operations=30,
            retry_window=10000,
            retention=100000,
            max_ttl=1000,
            max_lifetime=2000,
            max_due=3,
        ),
        segment_bytes=1048576,
        steps=(
            Apply(
                slot=1000329,
                groups=(
                    Group(
                        commands=(
                            ExpireHold(
                                id="0000000003e87729bb27e80f153fe102",
                                op="op11",
                                fingerprint="8cae8fbc89e44a1d7c4decb12342ed7d",
                            ),
                        )
                    ),
                    Group(
                        commands=(
                            PlaceHold(
                                legs=(Leg(pool="c", quantity=2),),
                                id="0000000003e87fa5b32f493a7f6e76fc",
                                owner="you",
                                ttl_slots=5,
                                op="op27",
                                fingerprint="3a407e9d448d00f638d5708c29324bed",
                            ),
                        )
                    ),
                    Group(
                        commands=(
                            ReleaseHold(
                                id="0000000003e87d50bb74e86cd8ea10d8",
                                owner="you",
                                op="op17",
                                fingerprint="d662e291d1e9656fc27545cb9b39322f",
                            ),
                        )
                    ),
                    Group(commands=(ConfirmHold(id="0000000003e87c5a8c068fee0250f8bd", owner="me", tenant="acme"),)),
                ),
            ),
            TakeSnapshot(slot=1000333),
            Fault(kind="rot", after=2, dice=2090357307),
            TakeSnapshot(slot=1000336),
            Reopen(slot=1010336),
        ),
    ),
    "damage passes for a torn tail": Plan(
        seed=65,
        limits=Limits(
            max_pools=1000,
            max_holds=1000,
            max_operations=30,
            retry_window=10000,
            retention=1500,
            max_ttl=1000,
            max_lifetime=2000,
            max_due=1000,
        ),
        segment_bytes=3000,
        steps=(
            Apply(
                slot=1000120,
                groups=(
                    Group(
                        commands=(
                            PutRecord(
                                kind="note",
                                id="n",
                                body='"x"',
                                if_version=1,
                                tenant="acme",
                                op="op27",
                                fingerprint="61e2f244310545a3a0203f04ab4b257d",
                            ),
                        )
                    ),
                ),
            ),
            Fault(kind="rot", after=7, dice=78176398, times=4),
        ),
    ),
}
