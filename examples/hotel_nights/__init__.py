"""A hotel by nights: rooms and parking in one hold, and payments that come too late: `python -m examples.hotel_nights`."""
