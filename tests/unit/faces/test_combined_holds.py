"""Combined holds: counted units, keys and items in one hold, all or none, in the callers' own words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit import Allowance, claim, items
from tests.support.kernels import Store


@pytest.fixture
def hk(store: Store) -> Any:
    store.hk.create_pool("show:42", total=3)
    store.hk.items.add(["seat:A1", "seat:A2", "seat:A3"])
    return store.hk


def everything(quantity: int = 2) -> list[object]:
    return [("show:42", quantity), claim("email", "a@b.c"), items("seat:A2", "seat:A1")]


def test_one_hold_takes_all_of_it_and_confirms_all_of_it(hk: Any) -> None:
    hold = hk.hold(everything(), ttl=60)
    assert len(hold.legs) == 4
    assert hk.pool("show:42").held == 2
    claim = hk.claims.get("email", "a@b.c")
    assert (claim.state, claim.hold, claim.combined) == ("held", hold.id, True)
    assert [item.hold for item in hk.items.get(["seat:A1", "seat:A3"])] == [hold.id, None]
    hk.confirm(hold, entity="order:9")
    assert hk.claims.list(entity="order:9")[0].key == "email:a@b.c"
    assert [item.state for item in hk.items.get(["seat:A1", "seat:A2", "seat:A3"])] == [
        "confirmed",
        "confirmed",
        "available",
    ]
    assert hk.admin.verify().ok


def test_every_leg_that_falls_short_is_named_in_the_callers_words(hk: Any) -> None:
    hk.hold(everything(), ttl=60)
    with pytest.raises(holdkit.InsufficientCapacity) as refused:
        hk.hold([*everything(), claim("email", "other")], ttl=60)
    error = refused.value
    assert [short.label or short.pool for short in error.shortfalls] == ["show:42", "email:a@b.c", "seat:A1", "seat:A2"]
    assert "'email:a@b.c' is taken" in str(error)
    assert "~" not in str(error)
    assert not hk.claims.is_taken("email", "other")
    with pytest.raises(holdkit.errors.PoolNotFound) as missing:
        hk.hold([items("seat:Z9"), "show:42"], ttl=60)
    assert missing.value.subject == "seat:Z9"
    assert "~" not in str(missing.value)
    with pytest.raises(holdkit.InsufficientCapacity) as alone:
        hk.consume([claim("email", "a@b.c")])
    assert alone.value.subject == "email:a@b.c"


@pytest.mark.parametrize("confirmed", [False, True])
def test_what_is_part_of_a_hold_is_ended_with_it(hk: Any, confirmed: bool) -> None:
    hold = hk.hold(everything(), ttl=60, token="me")
    ends: list[Callable[[], object]] = [
        lambda: hk.claims.free("email", "a@b.c", reason="closed"),
        lambda: hk.items.confirm(["seat:A1"], token="me", entity="user:1"),
        lambda: hk.items.release(["seat:A1", "seat:A2"], token="me"),
    ]
    if confirmed:
        hk.confirm(hold)
        ends.append(lambda: hk.items.free(["seat:A1"], reason="refund"))
    for end in ends:
        with pytest.raises(holdkit.errors.PartOfHold) as refused:
            end()
        assert refused.value.hold == hold.id
    if confirmed:
        hk.return_units(hold.ticket)
    else:
        hk.release(hold.ticket)
    assert hk.claims.get("email", "a@b.c").state == "released"
    assert [item.state for item in hk.items.get(["seat:A1"])] == ["available"]


def test_a_leg_of_ones_own_cannot_reach_behind_a_face(hk: Any) -> None:
    behind = holdkit.Leg("~claim/res_" + "0" * 32, 1, 1)
    for what in ([behind], [behind, claim("email", "x")]):
        with pytest.raises(holdkit.InvalidRequest) as wrong:
            hk.hold(what, ttl=60)
        assert wrong.value.code == "pool_reserved"
    with pytest.raises(TypeError):
        holdkit.Leg("show:42", label="mine")  # type: ignore[call-arg]
    assert set(holdkit.Leg.__struct_fields__) == {"pool", "quantity", "create_with_total"}
    with pytest.raises(holdkit.InvalidRequest) as endless:
        hk.hold([claim("email", "x")])
    assert endless.value.code == "ttl_required"


def test_calendar_nights_and_a_voucher_in_one_hold(store: Store) -> None:
    hk = store.hk
    hk.create_pool("parking", total=5)
    inn = hk.calendar("inn", {"double": 2, "suite": 1})
    begin, end = date(2099, 7, 1), date(2099, 7, 4)
    wanted: list[Any] = [inn.legs("double", begin, end), claim("voucher", "X7"), {"parking": 2}]
    stay = hk.hold(wanted, ttl=60, account="customer:7", op="stay")
    assert [leg.quantity for leg in stay.legs] == [1, 1, 1, 1, 2]
    assert hk.claims.get("voucher", "X7").hold == stay.id
    with pytest.raises(holdkit.InsufficientCapacity) as short:
        hk.hold([inn.legs({"suite": 2, "double": 1}, begin, end), claim("voucher", "X7")], ttl=60)
    assert len(short.value.shortfalls) == 4, "three nights of the suite, and the voucher"
    assert inn.available("double", begin, end).minimum == 1
    more = hk.calendar("inn", {"double": 7, "suite": 1})
    again = hk.hold([more.legs("double", begin, end), *wanted[1:]], ttl=60, account="customer:7", op="stay")
    assert (again.replayed, again.id) == (True, stay.id), "how many rooms there are is no part of what was asked"
    hk.release(stay, quantity=inn.legs("double", date(2099, 7, 3), end))
    assert [night.held for night in inn.available("double", begin, end).nights] == [1, 1, 0]
    hk.confirm(stay, entity="order:9")
    hk.return_units(stay, quantity=[inn.legs("double", date(2099, 7, 2), date(2099, 7, 3)), {"parking": 1}])
    assert [night.consumed for night in inn.available("double", begin, end).nights] == [1, 0, 0]
    assert (hk.pool("parking").consumed, hk.claims.list(entity="order:9")[0].key) == (1, "voucher:X7")
    with pytest.raises(holdkit.InvalidRequest) as twice:
        hk.return_units(stay, quantity=[inn.legs("double", begin, end), inn.legs("double", begin, end)])
    assert (twice.value.field, twice.value.code) == ("quantity", "pool_twice")
    assert hk.admin.verify().ok


def test_a_confirm_names_the_legs_that_it_is_about(store: Store) -> None:
    store.hk.create_pool("gpu", total=3)
    llm = store.hk.budget("llm", tokens=Allowance(100, per="day"))
    hold = store.hk.hold(["gpu", llm.legs("team-a", 40), claim("job", "1")], ttl=60)
    done = store.hk.confirm(hold, quantity=[llm.legs("team-a", 30), "gpu"])
    assert [leg.confirmed for leg in done.legs] == [1, 30, 0]
    assert (llm.remaining("team-a"), store.hk.claims.is_taken("job", "1")) == ({"tokens": 70}, False)


def test_a_block_of_all_of_it(tmp_path: Path) -> None:
    with holdkit.connect(f"sqlite:///{tmp_path}/holds.db") as hk:
        hk.create_pool("show:42", total=3)
        hk.items.add(["seat:A1", "seat:A2"])
        with hk.holding(everything(), ttl=60, entity="order:1"):  # type: ignore[arg-type]
            assert hk.claims.is_taken("email", "a@b.c")
        assert hk.claims.list(entity="order:1") != []
