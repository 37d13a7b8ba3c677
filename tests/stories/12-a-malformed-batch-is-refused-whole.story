# One malformed command refuses the whole request before anything is done, and leaves the engine as it was.
limits   max_batch=3
pool     gpu total=5
cursor   here
batch
  hold   a gpu 1 ttl=60
  hold   b gpu 0 ttl=60
end -> invalid field=quantity
batch atomic
  pool   x total=1
  pool   ~y total=1
end -> invalid field=id code=id_reserved
batch
  pool   p1 total=1
  pool   p2 total=1
  pool   p3 total=1
  pool   p4 total=1
end -> invalid field=commands code=batch_too_large
journal  after=here                         -> nothing
batch
  hold   a gpu 1 ttl=60                     -> held
end
