"""Generated tasks of the shop: users with requests."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.envs.service.cases import Case, LookUps, case_of, split_users
from agentgym.envs.service.database import Record, Tables
from agentgym.envs.service.people import draw_address
from agentgym.envs.service.proposals import CANCEL, Proposal, Value
from agentgym.envs.service.retail_world import PRODUCTS, REASONS, shop
from agentgym.envs.service.user import MOODS, Request, Scenario, draw_requests
from agentgym.envs.service.vocabulary import (
    CITY_WORDS,
    option_words,
    product_words,
    street_words,
)
from agentgym.envs.service.vocabulary import REASONS as REASON_WORDS
from agentgym.tasks import task_rng
from agentgym.tools import Call

# The words that name a change.
_ADDRESS = r"\b(?:address\w*|ship\w*|deliver\w*|sen[dt])\b"
_PAYMENT = r"\b(?:pay\w*|paid|charg\w+|method|card)\b"
_EXCHANGE = r"\b(?:chang\w+|modif\w+|replac\w+|swap\w*|switch\w*|updat\w+|exchang\w+)\b"
_OPTIONS = {name: option_words(options) for name, options in PRODUCTS.items()}
_PRODUCTS = product_words(PRODUCTS)
_RETURN = r"\b(?:return\w*|send\w* back)\b"


@lru_cache(maxsize=4096)
def retail_case(world: int, task: str, count: int | None) -> Case:
    """Returns a task.

    Args:
        world: seed of the shop.
        task: name of the task.
        count: number of requests. None: 1 to 3.
    """
    rng, tables = task_rng(task, "retail"), shop(world)
    users = split_users(tables, task.partition("/")[0])
    user_id = users[int(rng.integers(len(users)))]
    return _Writer(rng, tables, user_id).case(count or int(rng.integers(1, 4)))


class _Writer:
    """Writes the requests of a user."""

    def __init__(self, rng: np.random.Generator, tables: Tables, user_id: str):
        self.rng, self.tables, self.user_id = rng, tables, user_id
        self.user = tables.records["users"][user_id]
        self.orders = [tables.records["orders"][key] for key in self.user["orders"]]
        self.gift = next(m for m in self.user["payment_methods"].values() if "balance" in m)

    def case(self, count: int) -> Case:
        kinds = [
            *(self.cancel, self.new_address, self.new_payment, self.new_variant),
            *(self.send_back, self.exchange, self.move, self.ask_total, self.too_late),
        ]
        name, address = self.user["name"], self.user["address"]
        named = f"{name['first_name']} {name['last_name']}"
        if self.rng.random() < 0.5:
            identity = f"My email address is {self.user['email']}."
            find = Call("find_user_id_by_email", {"email": self.user["email"]})
        else:
            zip = address["zip"]
            identity = f"I forgot my email address. I am {named}, zip code {zip}."
            find = Call("find_user_id_by_name_zip", {**name, "zip": zip})
        requests = draw_requests(self.rng, kinds, count, self._subject)
        mood = MOODS[int(self.rng.integers(len(MOODS)))]
        return case_of(Scenario(self.user_id, identity, find, mood, requests))

    @staticmethod
    def _subject(request: Request) -> str:
        """Returns the order that a request is about. A request per order, so that none clash."""
        calls = [*request.calls, *request.look_ups[-1:]]
        return str(calls[0].arguments.get("order_id", "user"))

    def _pick(self, status: str) -> Record:
        found = [order for order in self.orders if order["status"] == status]
        return found[int(self.rng.integers(len(found)))]

    def _named(self, order: Record) -> tuple[str, dict[str, str], LookUps]:
        """Returns how the user names an order, the answer about it, and how to look it up."""
        order_id, item = order["order_id"], order["items"][0]["name"]
        look_up = Call("get_order_details", {"order_id": order_id})
        if self.rng.random() < 0.5:
            return f"my order {order_id}", {"order": f"The order is {order_id}."}, (look_up,)
        details = Call("get_user_details", {"user_id": self.user_id})
        orders = [Call("get_order_details", {"order_id": o["order_id"]}) for o in self.orders]
        known = {"order": f"I do not have the order number. It is the one with the {item}."}
        return f"my order with the {item}", known, (details, *orders[: orders.index(look_up) + 1])

    def _proposal(
        self,
        topic: str,
        order: Record | None = None,
        *,
        needed: tuple[Value, ...] = (),
        known: tuple[Value, ...] = (),
        base: tuple[float, ...] = (),
        **more: Any,
    ) -> Proposal:
        """Returns the values of a change of an order, or of the account."""
        methods = self.user["payment_methods"]
        amounts = [*base, self.gift["balance"]]
        if order is not None:
            needed = (("order", order["order_id"]), *needed)
            known = (*known, ("number", str(len(order["items"]))))
            amounts += [item["price"] for item in order["items"]]
            amounts.append(order["payment_history"][0]["amount"])
        return Proposal(topic, needed, known, tuple(amounts), methods, **more)

    def cancel(self) -> Request:
        order = self._pick("pending")
        named, facts, look_ups = self._named(order)
        reason = REASONS[int(self.rng.integers(2))]
        said = ("I do not need it any more.", "I ordered it by mistake.")[REASONS.index(reason)]
        order_id = order["order_id"]
        return Request(
            opening=f"I want to cancel {named}.",
            facts={**facts, "reason": said},
            proposal=self._proposal(
                CANCEL, order, known=(("reason", reason),), words={"reason": REASON_WORDS}
            ),
            calls=(Call("cancel_pending_order", {"order_id": order_id, "reason": reason}),),
            look_ups=look_ups,
            summary=f"I will cancel order {order_id} with the reason {reason!r}.",
        )

    def new_address(self) -> Request:
        order, new = self._pick("pending"), draw_address(self.rng)
        named, facts, look_ups = self._named(order)
        order_id, text = order["order_id"], _written(new)
        arguments = {"order_id": order_id, **new}
        return Request(
            opening=f"I need another shipping address for {named}.",
            facts={**facts, "address": f"The new address is {text}."},
            proposal=self._proposal(_ADDRESS, order, **_place(new)),
            calls=(Call("modify_pending_order_address", arguments),),
            look_ups=look_ups,
            summary=f"I will ship order {order_id} to {text}.",
        )

    def move(self) -> Request:
        new = draw_address(self.rng)
        text = _written(new)
        return Request(
            opening="I moved. Please change the address of my account, not of my orders.",
            facts={"address": f"The new address is {text}."},
            proposal=self._proposal(_ADDRESS, **_place(new)),
            calls=(Call("modify_user_address", {"user_id": self.user_id, **new}),),
            look_ups=(Call("get_user_details", {"user_id": self.user_id}),),
            summary=f"I will change the address of your account to {text}.",
        )

    def new_payment(self) -> Request | None:
        order = self._pick("pending")
        paid = order["payment_history"][0]
        methods = self.user["payment_methods"].values()
        others = [
            method
            for method in methods
            if method["id"] != paid["payment_method_id"]
            and method.get("balance", 1e9) >= paid["amount"]
        ]
        if not others:
            return None
        new = others[int(self.rng.integers(len(others)))]
        named, facts, look_ups = self._named(order)
        order_id, said = order["order_id"], _method(new)
        yours = said.replace("my", "your")
        arguments = {"order_id": order_id, "payment_method_id": new["id"]}
        return Request(
            opening=f"I want to pay {named} with another payment method.",
            facts={**facts, "payment": f"I want to pay with {said}."},
            proposal=self._proposal(
                _PAYMENT,
                order,
                needed=(("method", new["id"]),),
                known=(("method", paid["payment_method_id"]),),
            ),
            calls=(Call("modify_pending_order_payment", arguments),),
            look_ups=_with_user(look_ups, self.user_id),
            summary=f"I will change the payment of order {order_id} to {yours}.",
        )

    def new_variant(self) -> Request | None:
        return self._replace("pending", "modify_pending_order_items", "change")

    def exchange(self) -> Request | None:
        return self._replace("delivered", "exchange_delivered_order_items", "exchange")

    def _replace(self, status: str, name: str, verb: str) -> Request | None:
        order = self._pick(status)
        item = order["items"][int(self.rng.integers(len(order["items"])))]
        variants = self.tables.records["products"][item["product_id"]]["variants"].values()
        others = [v for v in variants if v["available"] and v["item_id"] != item["item_id"]]
        if len(others) < 2:
            return None
        first, second = (others[i] for i in self.rng.permutation(len(others))[:2].tolist())
        method = next(m for m in self.user["payment_methods"].values() if "brand" in m)
        named, facts, look_ups = self._named(order)
        corrected = bool(self.rng.random() < 0.3)
        final = second if corrected else first
        order_id, said = order["order_id"], _method(method)
        arguments = {
            "order_id": order_id,
            "item_ids": [item["item_id"]],
            "new_item_ids": [final["item_id"]],
            "payment_method_id": method["id"],
        }
        summary = (
            f"I will {verb} the {item['name']} of order {order_id} for the variant with "
            f"{{}}. The difference in price goes to {said.replace('my', 'your')}."
        )
        product = Call("get_product_details", {"product_id": item["product_id"]})
        return Request(
            opening=f"I want to {verb} the {item['name']} in {named} for another variant.",
            facts={
                **facts,
                "items": f"I want the {item['name']} with {_options(first)}.",
                "payment": f"The difference goes to {said}.",
            },
            proposal=self._proposal(
                _EXCHANGE,
                order,
                needed=tuple(final["options"].items()),
                known=(("item", item["name"]), ("method", method["id"])),
                base=tuple(variant["price"] for variant in variants),
                words={**_OPTIONS[item["name"]], "item": _PRODUCTS},
            ),
            calls=(Call(name, arguments),),
            correction=f"I want the one with {_options(second)} instead." if corrected else "",
            look_ups=(*_with_user(look_ups, self.user_id), product),
            summary=summary.format(_options(final)),
            draft=summary.format(_options(first)),
        )

    def send_back(self) -> Request:
        order = self._pick("delivered")
        paid = order["payment_history"][0]["payment_method_id"]
        method = self.user["payment_methods"][paid] if self.rng.random() < 0.5 else self.gift
        count = int(self.rng.integers(1, len(order["items"]) + 1))
        items = order["items"][:count]
        named, facts, look_ups = self._named(order)
        order_id, names = order["order_id"], " and the ".join(item["name"] for item in items)
        arguments = {
            "order_id": order_id,
            "item_ids": [item["item_id"] for item in items],
            "payment_method_id": method["id"],
        }
        said = _method(method)
        return Request(
            opening=f"I want to return the {names} from {named}.",
            facts={
                **facts,
                "items": f"Only the {names}.",
                "payment": f"The refund should go to {said}.",
            },
            proposal=self._proposal(
                _RETURN,
                order,
                needed=tuple(("item", item["name"]) for item in items),
                known=(("method", method["id"]),),
                base=(sum(item["price"] for item in items),),
                words={"item": _PRODUCTS},
                original=paid,
            ),
            calls=(Call("return_delivered_order_items", arguments),),
            look_ups=_with_user(look_ups, self.user_id),
            summary=(
                f"I will request the return of the {names} of order {order_id}, with a refund to "
                f"{said.replace('my', 'your')}."
            ),
        )

    def ask_total(self) -> Request:
        order = self._pick("processed")
        named, facts, look_ups = self._named(order)
        amount = f"{order['payment_history'][0]['amount']:.2f}".rstrip("0").rstrip(".")
        opening = f"How much did I pay for {named}?"
        return Request(opening=opening, facts=facts, outputs=(amount,), look_ups=look_ups)

    def too_late(self) -> Request:
        order = self._pick("processed" if self.rng.random() < 0.5 else "delivered")
        named, facts, look_ups = self._named(order)
        return Request(
            opening=f"I want to cancel {named}.",
            facts={**facts, "reason": "I do not need it any more."},
            proposal=self._proposal(CANCEL, order),
            look_ups=look_ups,
        )


def _with_user(look_ups: LookUps, user_id: str) -> LookUps:
    details = Call("get_user_details", {"user_id": user_id})
    return look_ups if details in look_ups else (details, *look_ups)


def _options(variant: Record) -> str:
    return ", ".join(f"{name} {value}" for name, value in variant["options"].items())


def _written(address: dict[str, str]) -> str:
    return (
        f"{address['address1']}, {address['address2']}, {address['city']}, {address['state']} "
        f"{address['zip']}, {address['country']}"
    )


def _method(method: Record) -> str:
    if "brand" in method:
        return f"my {method['brand']} credit card ending in {method['last_four']}"
    return f"my {method['source'].replace('_', ' ')}"


def _place(address: dict[str, str]) -> dict[str, Any]:
    """Returns the values of an address for a proposal."""
    street, numbers = (
        address["address1"],
        (address["address2"].split()[-1], str(int(address["zip"]))),
    )
    return {
        "needed": (("street", street),),
        "known": (("city", address["city"]), *(("number", number) for number in numbers)),
        "words": {"street": street_words(street), "city": CITY_WORDS},
    }
