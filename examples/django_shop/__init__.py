"""A ticket shop in Django. Run it: `python examples/django_shop/manage.py migrate`, then `… runserver`, then open /shows/42/."""
