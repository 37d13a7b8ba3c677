"""4. A budget of tokens: hold the estimate, confirm what the model has used."""

import holdkit
from holdkit import Allowance

hk = holdkit.connect("memory://")
llm = hk.budget("llm", requests=Allowance(60, per="minute"), tokens=Allowance(10_000, per="day"))
with llm.holding("team-a", {"requests": 1, "tokens": 2_000}, ttl="2m") as spending:
    spending.actual = {"tokens": 1_250}  # as the model's answer reports
print(llm.remaining("team-a"))
hold = llm.hold("team-a", {"requests": 1, "tokens": 8_500}, ttl="2m")
hold = llm.confirm(hold, {"tokens": 9_000})
print(hold.uncovered)
try:
    llm.hold("team-a", {"tokens": 1}, ttl="2m")
except holdkit.InsufficientCapacity as no:
    print(no.title, no.available)
hk.rate("api", Allowance(10, per="second")).consume("client-7")
