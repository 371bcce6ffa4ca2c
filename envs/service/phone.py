"""The user's phone: settings, checks and changes. Only the user can see and change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

APN, MMS_ADDRESS = "agtel.web", "mms.agtel.example"
SYMPTOMS = ("service", "data", "speed", "messages")
"""No service, no mobile data, slow mobile data, no picture messages."""


@dataclass
class Phone:
    """State of a phone.

    Attributes:
        abroad: whether the phone is outside the home country.
        sim: state of the SIM card. A locked one asks for its PUK.
        registered: whether the network accepts the phone. A restart renews it.
        apn: state of the access point. "reset" becomes "right" at the next restart.
        mode: preferred network mode.
        permitted: whether the messaging app has its permissions.
        airplane: airplane mode. The remaining attributes are switches, too.
    """

    abroad: bool = False
    sim: Literal["active", "loose", "locked"] = "active"
    registered: bool = True
    apn: Literal["right", "wrong", "reset"] = "right"
    mode: Literal["automatic", "2G only", "3G only"] = "automatic"
    permitted: bool = True
    airplane: bool = False
    data: bool = True
    roaming: bool = False
    saver: bool = False
    vpn: bool = False
    calling: bool = False


@dataclass(frozen=True)
class Network:
    """The side of the operator, which the agent can see and change.

    Attributes:
        active: whether the line is active, not suspended.
        roaming: whether roaming is enabled for the line.
        quota: whether mobile data is left.
    """

    active: bool
    roaming: bool
    quota: bool


SWITCHES = {
    "airplane mode": "airplane",
    "mobile data": "data",
    "data roaming": "roaming",
    "data saver": "saver",
    "the VPN": "vpn",
    "Wi-Fi calling": "calling",
}
"""Switch -> attribute of `Phone`."""
AUTOMATIC = "set the network mode to automatic"
RESEAT = "take the SIM card out and put it back in"
RESET = "reset the APN settings"
RESTART = "restart the phone"
PERMIT = "grant the permissions of the messaging app"
PAY = "pay the bill"


def switch(name: str, on: bool) -> str:
    """Returns the change that turns a switch on or off."""
    return f"turn {'on' if on else 'off'} {name}"


CHANGES = (
    *(switch(name, on) for name in SWITCHES for on in (True, False)),
    *(AUTOMATIC, RESEAT, RESET, RESTART, PERMIT, PAY),
)
"""The changes that the user can make, in the words of the manual."""

STATUS = "check the status bar"
SIM = "check the SIM card"
NETWORK = "check the network settings"
ACCESS = "check the APN settings"
MESSAGING = "check the messaging app"
CALLS = "check the call settings"


@dataclass(frozen=True)
class Fault:
    """A cause of a problem.

    Attributes:
        symptoms: the problems that it causes.
        present: whether it is present.
        check: the check that reveals it. "": the agent sees it in the database, or knows it.
        change: the change of the phone that repairs it. "": it is repaired in the database, or not
            at all.
    """

    symptoms: tuple[str, ...]
    present: Callable[[Phone, Network], bool]
    check: str = ""
    change: str = ""


_ALL = SYMPTOMS
_ONLINE = ("data", "speed", "messages")
FAULTS: dict[str, Fault] = {
    "suspended": Fault(_ALL, lambda p, n: not n.active),
    "unregistered": Fault(_ALL, lambda p, n: n.active and not p.registered, "", RESTART),
    "airplane": Fault(_ALL, lambda p, n: p.airplane, STATUS, switch("airplane mode", False)),
    "loose SIM": Fault(_ALL, lambda p, n: p.sim == "loose", SIM, RESEAT),
    "locked SIM": Fault(_ALL, lambda p, n: p.sim == "locked", SIM),
    "no roaming": Fault(_ONLINE, lambda p, n: p.abroad and not n.roaming),
    "no quota": Fault(_ONLINE, lambda p, n: not n.quota),
    "data off": Fault(_ONLINE, lambda p, n: not p.data, NETWORK, switch("mobile data", True)),
    "roaming off": Fault(
        _ONLINE, lambda p, n: p.abroad and not p.roaming, NETWORK, switch("data roaming", True)
    ),
    "wrong APN": Fault(_ONLINE, lambda p, n: p.apn == "wrong", ACCESS, RESET),
    "APN not loaded": Fault(_ONLINE, lambda p, n: p.apn == "reset", "", RESTART),
    "old network": Fault(
        ("speed", "messages"), lambda p, n: p.mode != "automatic", NETWORK, AUTOMATIC
    ),
    "saver": Fault(("speed",), lambda p, n: p.saver, NETWORK, switch("data saver", False)),
    "VPN": Fault(("speed",), lambda p, n: p.vpn, STATUS, switch("the VPN", False)),
    "permissions": Fault(("messages",), lambda p, n: not p.permitted, MESSAGING, PERMIT),
    "Wi-Fi calling": Fault(
        ("messages",), lambda p, n: p.calling, CALLS, switch("Wi-Fi calling", False)
    ),
}
"""Causes of the problems, in the order of diagnosis."""


DIAGNOSIS: dict[str, tuple[str, ...]] = {
    "service": (STATUS, SIM),
    "data": (STATUS, NETWORK, ACCESS),
    "speed": (STATUS, NETWORK),
    "messages": (NETWORK, ACCESS, MESSAGING, CALLS),
}
"""Symptom -> the checks that reveal its causes."""


def faults(phone: Phone, network: Network, symptom: str) -> list[str]:
    """Returns the present causes of a symptom. Without any, the problem is solved."""
    return [
        name
        for name, fault in FAULTS.items()
        if symptom in fault.symptoms and fault.present(phone, network)
    ]


def change(phone: Phone, network: Network, action: str) -> bool:
    """Makes a change, one of `CHANGES` except `PAY`. Returns whether any setting changed."""
    before = vars(phone).copy()
    if action == AUTOMATIC:
        phone.mode = "automatic"
    elif action == RESEAT:
        phone.sim = "active" if phone.sim == "loose" else phone.sim
    elif action == RESET:
        phone.apn = "reset"
    elif action == RESTART:
        phone.apn = "right" if phone.apn == "reset" else phone.apn
        phone.registered = network.active
    elif action == PERMIT:
        phone.permitted = True
    else:
        _, state, name = action.split(" ", 2)
        setattr(phone, SWITCHES[name], state == "on")
    return vars(phone) != before


def _status(phone: Phone, network: Network) -> str:
    if phone.airplane:
        signal = "an airplane and no signal"
    elif faults(phone, network, "service"):
        signal = "'No service'"
    else:
        tech = "5G" if phone.mode == "automatic" else phone.mode[:2]
        signal = f"four bars, {tech}" + ", with the sign of roaming" * phone.abroad
    return f"The status bar shows {signal}" + ", and the sign of a VPN" * phone.vpn + "."


def _sim(phone: Phone, network: Network) -> str:
    return {
        "active": "The SIM card is active.",
        "loose": "The phone shows 'No SIM card'.",
        "locked": "The SIM card is locked. The phone asks for its PUK.",
    }[phone.sim]


def _network(phone: Phone, network: Network) -> str:
    states = [f"{name} is {_on(getattr(phone, SWITCHES[name]))}" for name in _LISTED]
    return f"I see: {', '.join(states)}, and the network mode is {phone.mode}."


def _access(phone: Phone, network: Network) -> str:
    wrong = phone.apn == "wrong"
    shown = ("default", "empty") if wrong else (APN, MMS_ADDRESS)
    return f"The APN is {shown[0]} and the MMS address is {shown[1]}."


def _speed(phone: Phone, network: Network) -> str:
    if faults(phone, network, "data"):
        return "The speed test fails: there is no connection."
    slow = faults(phone, network, "speed")
    return "The speed test shows 2 Mbps." if slow else "The speed test shows 95 Mbps."


def _messaging(phone: Phone, network: Network) -> str:
    return f"The messaging app has {'all' if phone.permitted else 'no'} permissions."


def _calls(phone: Phone, network: Network) -> str:
    return f"Wi-Fi calling is {_on(phone.calling)}."


def _on(state: bool) -> str:
    return "on" if state else "off"


_LISTED = ("mobile data", "data roaming", "data saver")
CHECKS: dict[str, Callable[[Phone, Network], str]] = {
    STATUS: _status,
    SIM: _sim,
    NETWORK: _network,
    ACCESS: _access,
    MESSAGING: _messaging,
    CALLS: _calls,
    "run a speed test": _speed,
}
"""Check -> the user's report."""
