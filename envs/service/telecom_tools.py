"""Tools of the mobile network operator."""

from __future__ import annotations

import json

from agentgym.envs.service.database import Record
from agentgym.envs.service.desk import ServiceDesk
from agentgym.tools import ToolError, tool


class TelecomTools(ServiceDesk):
    """The tools of `Telecom`, without tasks."""

    writes = frozenset({"send_payment_request", "resume_line", "enable_roaming", "refuel_data"})
    private = frozenset({"get_customer", "get_line", "get_bills"})

    @tool
    def find_customer_by_phone(self, phone_number: str) -> str:
        """Finds the id of a customer by the number of a line.

        Args:
            phone_number: such as "555-011234".
        """
        for _, line in self.database.rows("lines"):
            if line["phone_number"] == phone_number:
                self.state.customer = line["customer_id"]
                return line["customer_id"]
        raise ToolError("customer not found")

    @tool
    def find_customer_by_name(self, first_name: str, last_name: str, date_of_birth: str) -> str:
        """Finds the id of a customer by name and date of birth.

        Args:
            first_name: such as "Mia".
            last_name: such as "Berg".
            date_of_birth: such as "1990-05-31".
        """
        wanted = first_name.lower(), last_name.lower(), date_of_birth
        for key, customer in self.database.rows("customers"):
            name = customer["name"]
            found = name["first_name"].lower(), name["last_name"].lower()
            if (*found, customer["date_of_birth"]) == wanted:
                self.state.customer = key
                return key
        raise ToolError("customer not found")

    @tool
    def get_customer(self, customer_id: str) -> str:
        """Shows name, address and the ids of lines and bills of a customer.

        Args:
            customer_id: such as "C1000".
        """
        return json.dumps(self._record("customers", customer_id, "customer"))

    @tool
    def get_line(self, line_id: str) -> str:
        """Shows number, device, status, contract, roaming and used data of a line.

        Args:
            line_id: such as "L2000".
        """
        return json.dumps(self._record("lines", line_id, "line"))

    @tool
    def get_plan(self, plan_id: str) -> str:
        """Shows the data limit of a plan, and its price of further data.

        Args:
            plan_id: such as "P1".
        """
        return json.dumps(self._record("plans", plan_id, "plan"))

    @tool
    def get_bills(self, customer_id: str) -> str:
        """Shows the bills of a customer. Their status is paid, issued, overdue or requested.

        Args:
            customer_id: such as "C1000".
        """
        customer = self._record("customers", customer_id, "customer")
        return json.dumps([self._record("bills", key, "bill") for key in customer["bills"]])

    @tool
    def send_payment_request(self, bill_id: str) -> str:
        """Sends a payment request for an overdue bill to the user's phone.

        Args:
            bill_id: such as "B9000".
        """
        if self._record("bills", bill_id, "bill")["status"] != "overdue":
            raise ToolError("the bill is not overdue")
        bill = self.database.edit("bills", bill_id)
        bill["status"] = "requested"
        return json.dumps(bill)

    @tool
    def resume_line(self, line_id: str) -> str:
        """Makes a suspended line active again.

        Args:
            line_id: such as "L2000".
        """
        if self._record("lines", line_id, "line")["status"] != "suspended":
            raise ToolError("the line is not suspended")
        unpaid = [
            bill
            for _, bill in self.database.rows("bills")
            if bill["line_id"] == line_id and bill["status"] in ("overdue", "requested")
        ]
        self._keep("resume a line after its bills are paid", not unpaid)
        return self._edited(line_id, status="active")

    @tool
    def enable_roaming(self, line_id: str) -> str:
        """Enables roaming for a line.

        Args:
            line_id: such as "L2000".
        """
        if self._record("lines", line_id, "line")["roaming_enabled"]:
            raise ToolError("roaming is enabled already")
        return self._edited(line_id, roaming_enabled=True)

    @tool
    def refuel_data(self, line_id: str, gigabytes: int) -> str:
        """Sells further data of this month to a line.

        Args:
            line_id: such as "L2000".
            gigabytes: 1 to 10.
        """
        if not 1 <= gigabytes <= 10:
            raise ToolError("gigabytes must be 1 to 10")
        before = self._record("lines", line_id, "line")["data_refueled_gb"]
        return self._edited(line_id, data_refueled_gb=before + gigabytes)

    def _edited(self, line_id: str, **changes: object) -> str:
        """Changes a line and returns it as text."""
        line: Record = self.database.edit("lines", line_id)
        line.update(changes)
        return json.dumps(line)
