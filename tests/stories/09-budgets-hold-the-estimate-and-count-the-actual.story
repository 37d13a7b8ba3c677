# The estimate is held, the actual is confirmed; more than that is covered as far as the budget goes.
budget   llm requests:5/minute tokens:1000/hour
budget hold a llm team requests:1 tokens:600 ttl=60 -> held deadline=60
budget hold b llm team requests:1 tokens:401 ttl=60 -> insufficient_capacity short=~budgets/llm/team/tokens/3600s@0:401/400 retry_after=3600
expect   pool ~budgets/llm/team/requests/60s@0      -> held=1
budget confirm a llm tokens:250                     -> confirmed ~budgets/llm/team/requests/60s@0.confirmed=1
budget hold c llm team tokens:700 ttl=60            -> held
budget confirm c llm tokens:751 overage=reject      -> quantity_exceeds_hold
budget confirm c llm tokens:751 overage=if_available -> insufficient_capacity requested=51 available=50
budget confirm c llm tokens:800                     -> confirmed confirmed=750 uncovered=50
expect   pool ~budgets/llm/team/tokens/3600s@0      -> held=0 consumed=1000
budget hold d llm other tokens:10 ttl=60            -> held
budget confirm d llm tokens:0 op=o                  -> released
budget confirm d llm tokens:0 op=o                  -> released replayed
budget confirm d llm tokens:1 op=o                  -> operation_conflict
