# Actor, correlation id and reason can be set once; a batch inherits them too.
context  actor=job:nightly correlation_id=run-7
pool     gpu total=5
hold     a gpu 1 ttl=60                     -> held actor=job:nightly correlation_id=run-7
batch
  hold   b gpu 1 ttl=60                     -> held actor=job:nightly correlation_id=run-7
  hold   c gpu 1 ttl=60 actor=user:1        -> held actor=user:1 correlation_id=run-7
end
context
hold     d gpu 1 ttl=60                     -> held actor=none correlation_id=none
hold     x gpu 1 ttl=60 actor=robot:1       -> invalid field=actor code=actor_malformed
hold     x gpu 1 ttl=60 actor=user          -> invalid field=actor
hold     e gpu 1 ttl=60 actor=anonymous     -> held actor=anonymous
