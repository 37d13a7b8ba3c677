# What the caller said about a hold stays with it, through every change.
pool     show:42 total=5
hold     a show:42 2 ttl=60 entity=order:9 actor=user:7 correlation_id=req-1 metadata='{"seats": [4, 5]}'  -> held quantity=2 fence=1
expect hold a  -> held entity=order:9 actor=user:7 correlation_id=req-1 metadata='{"seats": [4, 5]}' held_slot=0 deadline=60 ended_slot=none version=1
clock    5
confirm  a entity=order:10 reason='paid by card'  -> confirmed
expect hold a  -> confirmed entity=order:10 reason='paid by card' actor=user:7 metadata='{"seats": [4, 5]}' held_slot=0 ended_slot=5 version=2
