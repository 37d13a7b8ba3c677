"""A ticket shop with a seat map, a waiting room, and five hundred rivals: `python -m examples.ticket_shop`."""
