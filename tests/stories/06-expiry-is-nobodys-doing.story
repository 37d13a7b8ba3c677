# An expiry is journaled as the system's, under the hold's own correlation id, when it was noticed.
pool     gpu total=2
hold     a gpu 2 ttl=60 actor=user:7 correlation_id=req-1   -> held
clock    100
hold     b gpu 1 ttl=60 actor=user:8 correlation_id=req-2   -> held
entry    a -1  -> hold.expired actor=system correlation_id=req-1 at=100 gpu.held=-2 was=held
expect hold a  -> expired ended_slot=60
