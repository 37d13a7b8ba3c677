"""Stories: promises as plain text, run on any engine and in sync and async.

    pool   gpu total=2
    hold   a   gpu 2 ttl=60  -> held
    hold   b   gpu 1 ttl=60  -> insufficient_capacity requested=1 available=0
    clock  60
    hold   b   gpu 1 ttl=60  -> held           # at the deadline the units are already free
    confirm a                -> hold_expired

A line is a verb, its words, `option=value` pairs, and behind `->` what must be the answer. A word that is not known, or an
answer that is not expected anywhere, is an error that names file and line. Text with spaces is quoted: `'so'`; `x*513` is
x, 513 times; `\\u0000` is that character; `none`, `true`, `nan` and numbers mean themselves. All times are seconds. A story
begins at 0. After every line that wrote, the runner calls `verify`, which must find nothing.

Setup

    limits   max_holds=2 retention=10         first line only; every field of `Limits`, spans in seconds
    clock    60 | +5 | -5                     set, or move
    tenant   acme | none                      the tenant of the following lines
    context  actor=user:7 correlation_id=c reason=r    context of the following lines; without values: none
    restart                                   close and open again (an engine without durability keeps running)

Commands. All take `op= actor= correlation_id= reason=`. A granted hold is known by its name from then on; `@7` is the hold
with the id 7, whether there is one or not. A hold presents its own token; `token=` presents another, `token=none` none,
`via=ticket` shows the ticket instead.

    pool     gpu total=2                      per_account= line=; this and the next five need no expectation: none is "done"
    resize   gpu total=3
    limit    gpu per_account=4                or none
    archive  gpu                              and: unarchive gpu, remove gpu
    hold     a gpu 2 ttl=60                   deadline= id= token= entity= metadata= account= force
    hold     a gpu:2 cpu:1 rate:1/10          several legs; `/10`: create_with_total=10
    join     a gpu 2 ttl=600 offer_ttl=60     waits in line; otherwise like `hold`
    consume  a gpu 2
    confirm  a | a 2 | a gpu:1 cpu:0          keep_rest overage= entity= force trusted
    release  a | a 2 | a gpu:1                force trusted
    extend   a by=30 | ttl=30 | until=90      force
    reassign a account=c:7 | account=none     force
    expire   a
    return   a | a 2                          force; `return pool/gpu 2 force reason=r`: what no kept hold accounts for; account=
    record   kind id body='{}' if_version=0   body=none removes it
    sweep    limit=500                        -> done expired=2 holds=a,b tenants=acme,globex more=false
    change   retention=90 max_legs=3          limits that are stored with the data; if_version=
    capacity show total=5                     what the application answers for a resource from now on; closes=60
    resource hold a show quantity=2 ttl=60    a hold on it, as `hold`; its pool is ~r/told/"show"/null
    batch [atomic] … end                      the commands between are one `apply`; op= is for all of them

Faces. What they hold has a name, and ends like any hold: `confirm a entity=user:7`, `release a`, `extend a by=30`.

    claim hold a email x ttl=60               token= metadata=
    claim get email x                   -> held deadline=60 fence=1     (or by id=; or: nothing)
    claim taken email x                 -> true
    claim list entity=user:7            -> email:x
    claim free email x reason=r               a confirmed key is available again
    items add s1 s2                           and: items hold a s1 s2 ttl=60; or by the items: items confirm s1 s2 token=t, items release
    items free s1 s2 reason=r                 confirmed ones are available again
    items get s2 s1                     -> held available
    seats add stalls A 1 2 3                  row A of section stalls has seats A1, A2, A3; kind=k
    seats hold a 2 stalls together=prefer     hold the best two that are free; kind=k
    combine a gpu:2 key/email/x item/s1 ttl=60      units, a key and an item in one hold

Rates, budgets and calendars; each is known by its name from then on, and a granted hold by its own

    rate     api 10/1s 100/minute             at most this number per window, per client
    rate consume a api client [3]
    budget   llm requests:3/minute tokens:1000/day@Europe/Berlin
    budget hold a llm client requests:1 tokens:600 ttl=60
    budget confirm a llm tokens:250           keep_rest overage=
    calendar inn double:2 suite:1 zone=Europe/Lisbon
    calendar hold a inn double:1 1971-07-01 1971-07-04 ttl=60

Reads

    expect   pool gpu                   -> held=2 available=0
    expect   hold a                     -> held deadline=60
    expect   record kind id             -> version=1      (or: nothing)
    expect   pools | holds | records kind   prefix= archived= pool= state= entity= limit=   -> the names, in order (or: nothing)
    place    a                          -> 2              (its place in line, 1 is next; none: it does not wait)
    usage    customer:7                 -> gpu:2/4 show:1/none    (what an account uses, and the limit)
    history  a | pool/gpu | record/k/i  -> held extended confirmed
    entry    a 2                        -> hold.extended actor=user:7 at=60        (its second entry; -1: its last)
    journal  [after=c] [limit=5]        -> pool.created hold.held
    cursor   c                                remembers where the journal ends now
    follow   name                       -> what a follower of that name had not seen yet
    verify                              -> ok

What an answer may be asked for: its word (`waiting`, `held`, `confirmed`, `released`, `expired`, `done`, a reason, or `invalid` with
`field=` and `code=`), `replayed` (which must be stated if it was), and any of its numbers; of one leg of several as
`gpu.held=1`; `short=gpu:2/1,cpu:1/0` names every shortfall as pool:requested/available.
"""

from .commands import StoryFailed
from .interpreter import StoryResult, run_story, run_story_async
from .parser import Story, StorySyntax, read_stories, read_story

__all__ = [
    "Story",
    "StoryFailed",
    "StoryResult",
    "StorySyntax",
    "read_stories",
    "read_story",
    "run_story",
    "run_story_async",
]
