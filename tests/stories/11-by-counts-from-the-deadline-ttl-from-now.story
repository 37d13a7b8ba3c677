# extend: `by` from the present deadline, `ttl` from now, `until` absolute; exactly one of them.
pool     gpu total=1
hold     a gpu 1 ttl=100                    -> held deadline=100
clock    50
extend   a by=10                            -> held deadline=110
extend   a ttl=100                          -> held deadline=150
extend   a until=160                        -> held deadline=160
extend   a by=10 ttl=10                     -> invalid field=by code=by_ambiguous
extend   a                                  -> invalid field=by code=by_required
