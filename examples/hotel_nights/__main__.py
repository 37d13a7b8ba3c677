"""Start the hotel: `python -m examples.hotel_nights`."""

from __future__ import annotations

from examples.web import serve

from .hotel import application

if __name__ == "__main__":
    serve("The hotel", application, 8002)
