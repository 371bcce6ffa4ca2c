"""Generated tasks of the mobile network operator: users whose phones do not work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.envs.service.caller import Caller
from agentgym.envs.service.cases import Case, split_users
from agentgym.envs.service.database import Changes, Record, Tables, copied
from agentgym.envs.service.phone import CHANGES, CHECKS, PAY, SYMPTOMS, Phone
from agentgym.envs.service.telecom_world import operator
from agentgym.envs.service.user import MOODS
from agentgym.tasks import task_rng
from agentgym.tools import Call

CAUSES: dict[str, tuple[str, ...]] = {
    "service": ("airplane", "loose SIM", "bill"),
    "data": ("airplane", "data off", "wrong APN", "bill", "quota", "roaming off", "no roaming"),
    "speed": ("saver", "VPN", "old network"),
    "messages": (
        *("permissions", "Wi-Fi calling", "wrong APN", "data off", "old network"),
        *("roaming off", "no roaming"),
    ),
}
"""Symptom -> causes that a task can have."""
LOST: dict[str, tuple[str, ...]] = {"service": ("locked SIM", "contract"), "data": ("no money",)}
"""Symptom -> causes that only a human agent can solve."""
_ROAMING = ("roaming off", "no roaming")
_OPENINGS: dict[str, tuple[str, ...]] = {
    "service": (
        "My phone has no signal.",
        "I cannot call anybody.",
        "My phone does not find a network.",
    ),
    "data": (
        "The internet does not work on my phone.",
        "I have no mobile data.",
        "My phone does not load any page.",
    ),
    "speed": (
        "Mobile data is very slow.",
        "Pages take minutes to load on my phone.",
        "Videos stop all the time on my phone.",
    ),
    "messages": (
        "I cannot send pictures in messages.",
        "My picture messages fail.",
        "Messages with photos do not leave my phone.",
    ),
}
COUNTRIES = ("France", "Japan", "Brazil", "Kenya", "Canada", "Norway")


_PHONE = (
    "You hold the phone. To use it, write one line such as 'PHONE: check the status bar' and "
    f"nothing else. You then see the result. The phone can: {', '.join((*CHECKS, *CHANGES))}."
)
"""The part of the instruction of a user that is a model or a function."""


@dataclass(frozen=True)
class TelecomCase(Case):
    """A task with a caller."""

    caller: Caller


@lru_cache(maxsize=4096)
def telecom_case(world: int, task: str, count: int | None) -> TelecomCase:
    """Returns a task.

    Args:
        world: seed of the operator.
        task: name of the task.
        count: number of causes. None: 1 to 3.
    """
    rng, tables = task_rng(task, "telecom"), operator(world)
    customers = split_users(tables, task.partition("/")[0], "customers")
    customer = tables.records["customers"][customers[int(rng.integers(len(customers)))]]
    return _Writer(rng, tables, customer).case(count or int(rng.integers(1, 4)))


class _Writer:
    """Writes a task of a customer."""

    def __init__(self, rng: np.random.Generator, tables: Tables, customer: Record):
        self.rng, self.tables, self.customer = rng, tables, customer
        key = self._one(customer["lines"])
        self.line: Record = copied(tables.records["lines"][key])
        self.plan: Record = tables.records["plans"][self.line["plan_id"]]
        self.phone = self._phone()
        self.changes: Changes = {"lines": {key: self.line}}
        self.calls: list[Call] = []
        self.bills: list[int] = []
        self.gigabytes = 0

    def _one(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def _chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def _phone(self) -> Phone:
        """Returns a phone that works, with some settings that do no harm."""
        return Phone(abroad=self._chance(0.3), roaming=self._chance(0.5))

    def case(self, count: int) -> TelecomCase:
        symptom, lost = self._one(SYMPTOMS), ""
        harmless = {
            "service": ("saver", "VPN", "data off", "permissions"),
            "data": ("VPN", "saver", "permissions"),
            "speed": ("permissions", "Wi-Fi calling"),
            "messages": ("VPN", "saver"),
        }[symptom]
        if symptom in LOST and self._chance(0.2):
            lost = self._one(LOST[symptom])
        causes = [lost] if lost else self._causes(symptom, count)
        if self.phone.abroad:
            self.phone.roaming, self.line["roaming_enabled"] = True, True
        for cause in (*causes, *(h for h in harmless if self._chance(0.25))):
            self._cause(cause)
        caller = self._caller(symptom, len(causes), lost)
        facts = " ".join(caller.facts.values())
        return TelecomCase(
            instruction=f"{caller.opening} {facts} You are {caller.mood}. {_PHONE}",
            calls=tuple(self.calls),
            outputs=(),
            scenario=None,
            caller=caller,
        )

    def _causes(self, symptom: str, count: int) -> list[str]:
        """Returns different causes."""
        possible = CAUSES[symptom]
        found = [possible[i] for i in self.rng.permutation(len(possible))[:count].tolist()]
        self.phone.abroad = self.phone.abroad or any(cause in _ROAMING for cause in found)
        return found

    def _cause(self, cause: str) -> None:
        """Breaks the phone or the line, and adds the calls that repair it."""
        phone, line = self.phone, self.line
        if cause in ("bill", "contract"):
            self._suspend(cause)
        elif cause in ("quota", "no money"):
            self._use_up(cause == "quota")
        elif cause == "no roaming":
            line["roaming_enabled"] = False
            self.calls.append(Call("enable_roaming", {"line_id": line["line_id"]}))
        elif cause == "loose SIM":
            phone.sim = "loose"
        elif cause == "locked SIM":
            phone.sim = "locked"
        elif cause == "wrong APN":
            phone.apn = "wrong"
        elif cause == "old network":
            phone.mode = self._one(("2G only", "3G only"))
        else:
            name, value = _SETTINGS[cause]
            setattr(phone, name, value)

    def _suspend(self, cause: str) -> None:
        line, self.phone.registered = self.line, False
        line["status"] = "suspended"
        if cause == "contract":
            line["contract_end"] = "2025-01-31"
            return
        bills = self.tables.records["bills"]
        overdue = [
            key
            for key in self.customer["bills"]
            if bills[key]["line_id"] == line["line_id"] and bills[key]["month"] != "2025-02"
        ][: 1 + self._chance(0.3)]
        self.changes["bills"] = {key: {**bills[key], "status": "overdue"} for key in overdue}
        self.bills = [bills[key]["amount"] for key in overdue]
        for key in overdue:
            self.calls += [Call("send_payment_request", {"bill_id": key}), Call(PAY, {})]
        self.calls.append(Call("resume_line", {"line_id": line["line_id"]}))

    def _use_up(self, buys: bool) -> None:
        line, limit = self.line, self.plan["data_limit_gb"]
        line["data_used_gb"] = round(limit + float(self.rng.uniform(0, 0.9)), 1)
        if buys:
            self.gigabytes = int(self.rng.integers(1, 5))
            arguments = {"line_id": line["line_id"], "gigabytes": self.gigabytes}
            self.calls.append(Call("refuel_data", arguments))

    def _caller(self, symptom: str, causes: int, lost: str) -> Caller:
        name = self.customer["name"]
        full = f"{name['first_name']} {name['last_name']}"
        number = f"My phone number is {self.line['phone_number']}."
        if self._chance(0.4):
            number = "I do not know my phone number."
        place = self._one(COUNTRIES) if self.phone.abroad else self.customer["address"]["city"]
        more = f"I would pay for {self.gigabytes} GB." if self.gigabytes else ""
        return Caller(
            customer=self.customer["customer_id"],
            line=self.line["line_id"],
            mood=self._one(MOODS),
            symptom=symptom,
            opening=self._one(_OPENINGS[symptom]),
            facts={
                "number": number,
                "name": f"I am {full}, born {self.customer['date_of_birth']}.",
                "device": f"It is my {self.line['device']}.",
                "place": f"I am {'on a trip in' if self.phone.abroad else 'at home in'} {place}.",
                "gigabytes": more or "I do not want to pay for more data.",
            },
            gigabytes=self.gigabytes,
            price=f"${self.gigabytes * self.plan['refuel_price_per_gb']}",
            bills=tuple(f"${amount}" for amount in self.bills),
            phone=self.phone,
            changes=self.changes,
            causes=causes,
            lost=lost,
        )


_SETTINGS: dict[str, tuple[str, bool]] = {
    "airplane": ("airplane", True),
    "data off": ("data", False),
    "roaming off": ("roaming", False),
    "saver": ("saver", True),
    "VPN": ("vpn", True),
    "permissions": ("permitted", False),
    "Wi-Fi calling": ("calling", True),
}
"""Cause -> attribute of the phone and its value."""
