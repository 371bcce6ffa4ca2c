"""Tools of the shop: they follow the tools of tau-bench's retail domain exactly."""

from __future__ import annotations

import json
from typing import Any

from agentgym.envs.service.database import Record
from agentgym.envs.service.tau_desk import TauDesk
from agentgym.tools import ToolError, tool

WRITES = frozenset(
    {
        "cancel_pending_order",
        "exchange_delivered_order_items",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "modify_user_address",
        "return_delivered_order_items",
    }
)


class RetailTools(TauDesk):
    """The tools of `Retail`, without tasks."""

    tables_of_file = ("orders", "products", "users")
    splits_of_file = ("train", "dev", "test")
    writes = WRITES
    private = frozenset({"get_order_details", "get_user_details"})
    identity = "email address, or your name and zip code"
    subjects = {  # noqa: RUF012
        "order": "order number",
        "reason": "reason",
        "payment": "payment method",
        "address": "new address",
        "items": "items",
    }

    @tool
    def find_user_id_by_email(self, email: str) -> str:
        """Finds the id of a user by email address.

        Args:
            email: such as "mia@example.com".
        """
        for user_id, user in self.database.rows("users"):
            if user["email"].lower() == email.lower():
                self.state.customer = user_id
                return user_id
        raise ToolError("user not found")

    @tool
    def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:
        """Finds the id of a user by name and zip code, if the email address is not known.

        Args:
            first_name: such as "Mia".
            last_name: such as "Berg".
            zip: such as "12345".
        """
        wanted = first_name.lower(), last_name.lower()
        for user_id, user in self.database.rows("users"):
            name = user["name"]
            found = name["first_name"].lower(), name["last_name"].lower()
            if found == wanted and user["address"]["zip"] == zip:
                self.state.customer = user_id
                return user_id
        raise ToolError("user not found")

    @tool
    def get_user_details(self, user_id: str) -> str:
        """Shows name, address, payment methods and orders of a user.

        Args:
            user_id: id of the user.
        """
        return json.dumps(self._record("users", user_id, "user"))

    @tool
    def get_order_details(self, order_id: str) -> str:
        """Shows status, items, address and payments of an order.

        Args:
            order_id: such as "#W0000000", with "#".
        """
        return json.dumps(self._record("orders", order_id, "order"))

    @tool
    def get_product_details(self, product_id: str) -> str:
        """Shows the variants of a product with options, prices and availability.

        Args:
            product_id: id of the product, not of an item.
        """
        return json.dumps(self._record("products", product_id, "product"))

    @tool
    def list_all_product_types(self) -> str:
        """Lists names and ids of all products."""
        products = self.database.rows("products")
        return json.dumps(dict(sorted((p["name"], p["product_id"]) for _, p in products)))

    @tool
    def cancel_pending_order(self, order_id: str, reason: str) -> str:
        """Cancels a pending order. The user must have confirmed.

        Args:
            order_id: such as "#W0000000".
            reason: "no longer needed" or "ordered by mistake".
        """
        order = self._order(order_id, "pending", "non-pending order cannot be cancelled")
        if reason not in ("no longer needed", "ordered by mistake"):
            raise ToolError("invalid reason")
        order = self.database.edit("orders", order_id)
        refunds = []
        for payment in order["payment_history"]:
            payment_id, amount = payment["payment_method_id"], payment["amount"]
            refunds.append(_transaction("refund", amount, payment_id))
            if "gift_card" in payment_id:
                self._charge(order, payment_id, -amount)
        order["status"] = "cancelled"
        order["cancel_reason"] = reason
        order["payment_history"].extend(refunds)
        return json.dumps(order)

    @tool
    def modify_pending_order_address(
        self,
        order_id: str,
        address1: str,
        address2: str,
        city: str,
        state: str,
        country: str,
        zip: str,
    ) -> str:
        """Changes the shipping address of a pending order. The user must have confirmed.

        Args:
            order_id: such as "#W0000000".
            address1: first line, such as "12 Main Street".
            address2: second line, such as "Suite 3", or "".
            city: the city.
            state: such as "CA".
            country: such as "USA".
            zip: such as "12345".
        """
        self._order(order_id, "pending", "non-pending order cannot be modified")
        order = self.database.edit("orders", order_id)
        order["address"] = _address(address1, address2, city, state, country, zip)
        return json.dumps(order)

    @tool
    def modify_user_address(
        self,
        user_id: str,
        address1: str,
        address2: str,
        city: str,
        state: str,
        country: str,
        zip: str,
    ) -> str:
        """Changes the default address of a user. The user must have confirmed.

        Args:
            user_id: id of the user.
            address1: first line, such as "12 Main Street".
            address2: second line, such as "Suite 3", or "".
            city: the city.
            state: such as "CA".
            country: such as "USA".
            zip: such as "12345".
        """
        self._record("users", user_id, "user")
        user = self.database.edit("users", user_id)
        user["address"] = _address(address1, address2, city, state, country, zip)
        return json.dumps(user)

    @tool
    def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> str:
        """Changes the payment method of a pending order. The user must have confirmed.

        Args:
            order_id: such as "#W0000000".
            payment_method_id: such as "gift_card_0000000", from the user's details.
        """
        order = self._order(order_id, "pending", "non-pending order cannot be modified")
        method = self._payment_method(order, payment_method_id)
        first = order["payment_history"][0]
        if len(order["payment_history"]) > 1 or first["transaction_type"] != "payment":
            raise ToolError("there should be exactly one payment for a pending order")
        old_id, amount = first["payment_method_id"], first["amount"]
        if old_id == payment_method_id:
            raise ToolError("the new payment method should be different from the current one")
        if method["source"] == "gift_card" and method["balance"] < amount:
            raise ToolError("insufficient gift card balance to pay for the order")
        order = self.database.edit("orders", order_id)
        order["payment_history"] += [
            _transaction("payment", amount, payment_method_id),
            _transaction("refund", amount, old_id),
        ]
        if method["source"] == "gift_card":
            self._charge(order, payment_method_id, amount)
        if "gift_card" in old_id:
            self._charge(order, old_id, -amount)
        return json.dumps(order)

    @tool
    def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> str:
        """Replaces items of a pending order by other variants of the same products.

        It is possible only once per order. The user must have confirmed.

        Args:
            order_id: such as "#W0000000".
            item_ids: the items to be replaced.
            new_item_ids: the new items, in the same order.
            payment_method_id: pays or receives the difference of the prices.
        """
        order = self._order(order_id, "pending", "non-pending order cannot be modified")
        difference = self._difference(order, item_ids, new_item_ids)
        method = self._payment_method(order, payment_method_id)
        if method["source"] == "gift_card" and method["balance"] < difference:
            raise ToolError("insufficient gift card balance to pay for the new item")
        order = self.database.edit("orders", order_id)
        kind = "payment" if difference > 0 else "refund"
        order["payment_history"].append(_transaction(kind, abs(difference), payment_method_id))
        if method["source"] == "gift_card":
            self._charge(order, payment_method_id, difference)
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = next(item for item in order["items"] if item["item_id"] == old)
            variant = self._record("products", item["product_id"], "product")["variants"][new]
            item["item_id"] = new
            item["price"], item["options"] = variant["price"], dict(variant["options"])
        order["status"] = "pending (item modified)"
        return json.dumps(order)

    @tool
    def return_delivered_order_items(
        self, order_id: str, item_ids: list[str], payment_method_id: str
    ) -> str:
        """Requests the return of items of a delivered order. The user must have confirmed.

        Args:
            order_id: such as "#W0000000".
            item_ids: the items to be returned.
            payment_method_id: receives the refund: the original payment method or a gift card.
        """
        order = self._order(order_id, "delivered", "non-delivered order cannot be returned")
        self._payment_method(order, payment_method_id)
        original = order["payment_history"][0]["payment_method_id"]
        if "gift_card" not in payment_method_id and payment_method_id != original:
            raise ToolError(
                "payment method should be either the original payment method or a gift card"
            )
        held = [item["item_id"] for item in order["items"]]
        if any(item_ids.count(item) > held.count(item) for item in item_ids):
            raise ToolError("some item not found")
        order = self.database.edit("orders", order_id)
        order["status"] = "return requested"
        order["return_items"] = sorted(item_ids)
        order["return_payment_method_id"] = payment_method_id
        return json.dumps(order)

    @tool
    def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> str:
        """Exchanges items of a delivered order for other variants of the same products.

        It is possible only once per order. The user must have confirmed.

        Args:
            order_id: such as "#W0000000".
            item_ids: the items to be exchanged.
            new_item_ids: the new items, in the same order.
            payment_method_id: pays or receives the difference of the prices.
        """
        order = self._order(order_id, "delivered", "non-delivered order cannot be exchanged")
        difference = round(self._difference(order, item_ids, new_item_ids), 2)
        method = self._payment_method(order, payment_method_id)
        if method["source"] == "gift_card" and method["balance"] < difference:
            raise ToolError("insufficient gift card balance to pay for the price difference")
        order = self.database.edit("orders", order_id)
        order["status"] = "exchange requested"
        order["exchange_items"] = sorted(item_ids)
        order["exchange_new_items"] = sorted(new_item_ids)
        order["exchange_payment_method_id"] = payment_method_id
        order["exchange_price_difference"] = difference
        return json.dumps(order)

    def _order(self, order_id: str, status: str, problem: str) -> Record:
        """Returns an order with a status.

        Raises:
            ToolError: if there is no such order, or with the problem for another status.
        """
        order = self._record("orders", order_id, "order")
        if order["status"] != status:
            raise ToolError(problem)
        return order

    def _payment_method(self, order: Record, payment_method_id: str) -> Record:
        methods = self._record("users", order["user_id"], "user")["payment_methods"]
        if payment_method_id not in methods:
            raise ToolError("payment method not found")
        return methods[payment_method_id]

    def _charge(self, order: Record, payment_method_id: str, amount: float) -> None:
        """Subtracts an amount from a gift card."""
        user = self.database.edit("users", order["user_id"])
        card = user["payment_methods"][payment_method_id]
        card["balance"] = round(card["balance"] - amount, 2)

    def _difference(self, order: Record, old: list[str], new: list[str]) -> float:
        """Returns the difference of the prices of new and old items.

        Raises:
            ToolError: if the items are not in the order, or the new ones are not variants of them.
        """
        held = [item["item_id"] for item in order["items"]]
        for item_id in old:
            if old.count(item_id) > held.count(item_id):
                raise ToolError(f"{item_id} not found")
        if len(old) != len(new):
            raise ToolError("the number of items to be exchanged should match")
        difference = 0.0
        for item_id, new_id in zip(old, new, strict=True):
            item = next(item for item in order["items"] if item["item_id"] == item_id)
            variants = self._record("products", item["product_id"], "product")["variants"]
            if new_id not in variants or not variants[new_id]["available"]:
                raise ToolError(f"new item {new_id} not found or available")
            difference += variants[new_id]["price"] - item["price"]
        return difference


def _transaction(kind: str, amount: float, payment_id: str) -> dict[str, Any]:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": payment_id}


def _address(
    address1: str, address2: str, city: str, state: str, country: str, zip: str
) -> dict[str, str]:
    return {
        "address1": address1,
        "address2": address2,
        "city": city,
        "state": state,
        "country": country,
        "zip": zip,
    }
