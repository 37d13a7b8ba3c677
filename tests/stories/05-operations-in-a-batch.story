# Each command of a batch has its own operation id; an aborted one is settled as aborted.
pool     gpu total=2
batch
  hold   a gpu 1 ttl=60 op=one              -> held
  hold   b gpu 5 ttl=60 op=two              -> insufficient_capacity
end
batch
  hold   a gpu 1 ttl=60 op=one              -> held replayed
  hold   b gpu 5 ttl=60 op=two              -> insufficient_capacity replayed
  hold   c gpu 1 ttl=60 op=three            -> held
end
batch atomic
  pool   cpu total=1 op=four                -> aborted
  hold   d gpu 1 ttl=60 op=five             -> insufficient_capacity
end
pool     cpu total=1 op=four                -> aborted replayed
pool     cpu total=1 op=six                 -> done
expect pool gpu                             -> held=2
