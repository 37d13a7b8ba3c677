# Time ends at slot 2^63-1: a deadline beyond it is refused, at it granted.
limits   max_ttl=2000
pool     gpu total=2
clock    9223372036000
hold     a gpu 1 deadline=9223372036854.775808   -> slot_overflow
hold     a gpu 1 deadline=9223372036854.775807   -> held
hold     b gpu 1 ttl=1000             -> slot_overflow
hold     b gpu 1 ttl=800              -> held
extend   b by=800                     -> slot_overflow
extend   b until=9223372036854.775807 -> held deadline=9223372036854.775807
