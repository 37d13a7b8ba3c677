# Seconds, fractions, and text: "90s", "5m", "2h", "1d", "250ms".
pool     gpu total=99
hold     a gpu 1 ttl=90                     -> held deadline=90
hold     b gpu 1 ttl=0.5                    -> held deadline=0.5
hold     c gpu 1 ttl=90s                    -> held deadline=90
hold     d gpu 1 ttl=5m                     -> held deadline=300
hold     e gpu 1 ttl=2h                     -> held deadline=7200
hold     f gpu 1 ttl=1d                     -> held deadline=86400
hold     g gpu 1 ttl=250ms                  -> held deadline=0.25
hold     h gpu 1 ttl=1.5h                   -> held deadline=5400
hold     x gpu 1 ttl=soon                   -> invalid field=ttl code=ttl_malformed
hold     x gpu 1 ttl='5 parsecs'            -> invalid code=ttl_malformed
extend   a by=1m                            -> held deadline=150
extend   a ttl=4m                           -> held deadline=240
