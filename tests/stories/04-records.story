# A small durable document, changed only by whoever saw its last version.
expect record saga 7                                    -> nothing
record   saga 7 body='{"phase": "reserving"}' if_version=0   -> done version=1
record   saga 7 body='{"phase": "again"}' if_version=0       -> version_conflict version=1 subject=saga/7
record   saga 7 body='{"phase": "finalizing"}' if_version=1  -> done version=2
record   saga 7 body='{"phase": "late"}' if_version=1        -> version_conflict version=2
record   saga 8 body='[1, 2]'                                -> done version=1
restart
expect record saga 7                                    -> version=2 body='{"phase": "finalizing"}'
expect records saga                                     -> 7 8
record   saga 7 body=none if_version=2                  -> done
expect record saga 7                                    -> nothing
record   saga 7 body=none                               -> done
record   saga 7 body='{}' if_version=1                  -> version_conflict version=0
history  record/saga/7                                  -> put put put
record   saga 9 body='not json'                         -> invalid field=body code=body_not_json
record   ~own 9 body='{}'                               -> invalid field=kind code=kind_reserved
