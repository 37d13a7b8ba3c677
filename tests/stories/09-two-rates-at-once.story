# Several allowances are taken together or not at all, and the refusal waits for the window that fell short.
rate    api 2/second 3/minute
rate consume a api me 2               -> confirmed
rate consume b api me                 -> insufficient_capacity short=~rates/api/me/1s@0:1/0 retry_after=1
clock   1
rate consume b api me 2               -> insufficient_capacity short=~rates/api/me/60s@0:2/1 retry_after=59
expect  pools prefix=~rates/          -> ~rates/api/me/1s@0 ~rates/api/me/60s@0        # nothing of the refused is left
rate consume b api me 1               -> confirmed
tenant  acme
rate consume c api me 2               -> confirmed                     # another tenant's windows are its own
