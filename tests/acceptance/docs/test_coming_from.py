"""The pages for users of other libraries map every public name of those libraries."""

from __future__ import annotations

import pytest

from tests.acceptance.docs.pages import ROOT

KNOWN = {
    "ferro-reservation": """ReservationKernel::new Resource Key Window KIND capacity held hold commit release extend
        run_sweep_once SweepReport expired_count scanned_at ReservationHandle PaymentFailed ReservationContext system user job
        anonymous with_correlation with_tenant with_reason tenant_id Insufficient ConflictingState NotFound Db Guarded Audit
        Json ReservationEvent::Held Committed Released Expired reservation.held reservation.committed reservation.released
        reservation.expired reservation.extended AuditTarget history_for_target reconstruct_state AuditActor
        resource_kind resource_key window quantity status expires_at held_at committed_at released_at release_reason
        idx_reservations_kind_key_window_status idx_reservations_status_expires ferro_queue tokio::time::interval cron
        SERIALIZABLE 40001 checkout ticket rate-limit global_dispatcher Serialize""",
    "reservation-core": """pool_id total_capacity held_capacity consumed_capacity hold_id quantity deadline_slot state held
        confirmed released expired CreatePool PlaceHold ConfirmHold ReleaseHold ExpireHold GetPool GetHold Ok AlreadyExists
        PoolTableFull PoolNotFound HoldTableFull HoldNotFound InsufficientCapacity HoldExpired InvalidState OperationConflict
        OperationTableFull SlotOverflow request_slot carts payments pricing Multi-pool partial transfer synchronization
        workflow timer""",
    "reservation-pattern": """reserve confirm release reserveIdempotent findReservation getReservation activeOnly isReserved
        isReservationActive getRemainingTTL hashReservationId expireReservations batchSize expireExpiredReservations cron
        crons.interval defineTable ReservationRepository ReservationCMS ReservationKey findById findByKey findActiveByKey
        insert update findExpired by_reservationId by_key by_type_value by_status_expiresAt by_entityId success conflict error
        result.code result.message reserved confirmed released expired reservationId key type value ttl expiresAt entityId
        correlationId version createdAt confirmedAt releasedAt updatedAt existingReservationId existingExpiresAt
        ALREADY_RESERVED RESERVATION_NOT_FOUND RESERVATION_ALREADY_EXPIRED RESERVATION_ALREADY_CONFIRMED
        RESERVATION_ALREADY_RELEASED INVALID_TTL TTL_TOO_SHORT TTL_TOO_LONG DCB saga OCC TOCTOU res_ registerUser
        cancelRegistration""",
    "posting-lifecycle": """PostingStatus Active PendingInactive Inactive ReservationId reserve_postings release_postings
        finalize rid affected-row write-ahead roll-forward recovery saga UTXO balance compare-and-set double-spend
        hot Ownership owner crash orphaned Compensation dumb reserve validate""",
}


@pytest.mark.parametrize("page", KNOWN)
def test_nothing_is_left_without_an_answer(page: str) -> None:
    text = (ROOT / f"docs/coming-from-{page}.md").read_text("utf-8")
    assert [name for name in KNOWN[page].split() if name not in text] == []
