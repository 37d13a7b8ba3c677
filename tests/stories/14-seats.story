# Neighbours are seats of one row whose positions differ by 1; the best that are free are held, and nobody gets a seat twice.
items seats stalls A9 1 2 3 4 5
items seats stalls A10 1 2 3 5 6 7
items seats stalls W 1 2 kind=wheelchair
items best a 2 stalls ttl=60 token=ann                       -> held deadline=60
items states A91 A92 A93 A94 A95 token=ann                   -> held/yours held/yours available available available
items best b 4 stalls                                        -> items_taken
items best b 3 stalls token=bob                              -> held
items states A93 A94 A95                                     -> held held held
items best c 4 stalls together=prefer                        -> held
items states A101 A102 A103 A105 A106 A107                   -> held held held held available available
items best d 3 stalls together=false                         -> items_taken
items best d 3 stalls kind=wheelchair                        -> items_taken
items best d 2 stalls kind=wheelchair                        -> held
items best e 1 circle                                        -> section_not_found subject=circle
items reserve a A92 A91 token=ann                            -> held deadline=60
items finalize b                                             -> confirmed
clock    60
items best e 2 stalls                                        -> held
items states A91 A92 A93                                     -> held held spent
items best f 2 stalls op=f                                   -> held
items best f 2 stalls op=f                                   -> held replayed
items best f 1 stalls op=f                                   -> operation_conflict
items seats stalls A9 1 1                                    -> invalid field=items code=item_twice
