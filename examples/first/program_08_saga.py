"""8. A saga: what is held is confirmed if the card was charged, and comes back if it was not."""

import holdkit
from holdkit.sagas import SagaStep


class Order(holdkit.Saga):
    """Charge a card for a seat."""

    name = "order"

    def reserve(self, intent: dict[str, int], step: SagaStep) -> str:
        """Return what to hold."""
        return "show:42"

    def validate(self, intent: dict[str, int], step: SagaStep) -> None:
        """Raise before anything is charged."""
        if intent["price"] > 100:
            raise ValueError("too dear")

    def effect(self, intent: dict[str, int], step: SagaStep) -> str:
        """Charge the card: `step.op` is the same in every attempt."""
        return f"charged {intent['price']} as {step.op}"


hk = holdkit.connect("memory://")
hk.create_pool("show:42", total=1)
orders = hk.sagas.register(Order)
print(orders.run("order-9", {"price": 30}).result)
try:
    orders.run("order-10", {"price": 30})
except holdkit.Unavailable as no:
    print(no.title)
