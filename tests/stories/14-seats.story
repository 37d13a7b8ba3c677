# Neighbours are seats of one row whose positions differ by 1; the best that are free are held, and nobody gets a seat twice.
seats add stalls A9 1 2 3 4 5
seats add stalls A10 1 2 3 5 6 7
seats add stalls W 1 2 kind=wheelchair
seats hold a 2 stalls ttl=60 token=ann  -> held deadline=60
items get A91 A92 A93 A94 A95 token=ann -> held/yours held/yours available available available
seats hold b 4 stalls                   -> items_taken
seats hold b 3 stalls token=bob         -> held
items get A93 A94 A95                   -> held held held
seats hold c 4 stalls together=prefer   -> held
items get A101 A102 A103 A105 A106 A107 -> held held held held available available
seats hold d 3 stalls together=false    -> items_taken
seats hold d 3 stalls kind=wheelchair   -> items_taken
seats hold d 2 stalls kind=wheelchair   -> held
seats hold e 1 circle                   -> section_not_found subject=circle
items hold a A92 A91 token=ann          -> held replayed deadline=60
confirm b                               -> confirmed
clock    60
seats hold e 2 stalls                   -> held
items get A91 A92 A93                   -> held held confirmed
seats hold f 2 stalls op=f              -> held
seats hold f 2 stalls op=f              -> held replayed
seats hold f 1 stalls op=f              -> operation_conflict
seats add stalls A9 1 1                 -> invalid field=items code=item_twice
