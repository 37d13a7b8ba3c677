# A face may end a hold without its token, and take its deadline away; nobody else may ask for that, in a batch or alone.
pool     gpu total=1
hold     a gpu 1 ttl=60                     -> held deadline=60
cursor   here
batch
  release a trusted token=none
end -> invalid field=trusted code=trusted_reserved
batch
  confirm a trusted
end -> invalid field=trusted code=trusted_reserved
release  a trusted                          -> invalid field=trusted code=argument_unknown
extend   a forever=1                        -> invalid field=forever code=argument_unknown
journal  after=here                         -> nothing
clock    60
expect hold a                               -> expired
