# A hold that outlives its window is confirmed where it was decided, and its window waits for it.
budget   llm tokens:100/minute
clock    59
budget hold a llm team tokens:60 ttl=30 op=x        -> held
clock    61
budget hold a llm team tokens:60 ttl=30 op=x        -> held replayed
budget hold b llm team tokens:100 ttl=30            -> held
sweep                                               -> done
expect   pools prefix=~budgets/                     -> ~budgets/llm/team/tokens/60s@0 ~budgets/llm/team/tokens/60s@60
budget confirm a llm tokens:90                      -> confirmed confirmed=90 uncovered=0
sweep                                               -> done
expect   pools prefix=~budgets/                     -> ~budgets/llm/team/tokens/60s@60
clock    120
budget confirm b llm tokens:1                       -> hold_expired
sweep                                               -> done
sweep                                               -> done
expect   pools prefix=~budgets/                     -> nothing
