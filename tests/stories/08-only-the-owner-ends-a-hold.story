# Confirm, release, extend and return must present the token; a wrong one and none at all are the same answer.
pool     gpu total=2
hold     a gpu 1 ttl=60                     -> held
confirm  a token=thief                      -> not_owner
confirm  a token=none                       -> not_owner
release  a token=thief                      -> not_owner
release  a token=none                       -> not_owner
extend   a by=1 token=thief                 -> not_owner
extend   a by=1 token=none                  -> not_owner
expect hold a                               -> held deadline=60 version=1
confirm  a                                  -> confirmed
return   a token=thief                      -> not_owner
return   a                                  -> confirmed
