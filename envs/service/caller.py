"""The scripted user with a phone: answers questions, follows instructions and reports."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from agentgym.envs.service.database import Changes
from agentgym.envs.service.phone import (
    ACCESS,
    AUTOMATIC,
    CALLS,
    CHANGES,
    CHECKS,
    FAULTS,
    MESSAGING,
    NETWORK,
    PAY,
    PERMIT,
    RESEAT,
    RESET,
    RESTART,
    SIM,
    STATUS,
    SWITCHES,
    Network,
    Phone,
    change,
    faults,
    switch,
)
from agentgym.envs.service.user import CONFIRM, DENIED, STOP, STYLES, Reply

PATIENCE = {"polite": 4, "curt": 4, "chatty": 5, "angry": 3}
"""Mood -> number of needless changes after which the user ends the conversation."""
_NAMES = {
    "airplane mode": "(?:airplane|flight) mode",
    "mobile data": "(?:mobile|cellular) data",
    "data roaming": "(?:data )?roaming",
    "data saver": "data saver",
    "the VPN": "vpn",
    "Wi-Fi calling": "wi-?fi calling",
}
_NEAR = "[^.?!]{0,40}"
_LOOK = rf"\b(?:check|look|open|read|see|view|tell|what|which){_NEAR}\b"


def _switch_pattern(name: str, on: bool) -> str:
    noun = f"(?:the |your )?{_NAMES[name]}"
    state = "on" if on else "off"
    verbs = r"\b(?:enable|activate)" if on else r"\b(?:disable|deactivate|disconnect)"
    return rf"\b(?:turn|switch) {state} {noun}|\b(?:turn|switch) {noun} {state}|{verbs} {noun}"


_PATTERNS: dict[str, str] = {
    **{switch(name, on): _switch_pattern(name, on) for name in SWITCHES for on in (True, False)},
    AUTOMATIC: rf"\b(?:set|change|switch){_NEAR}network mode{_NEAR}automatic",
    RESEAT: rf"\b(?:take|remove|eject){_NEAR}\bsim\b|\bre-?(?:seat|insert){_NEAR}\bsim\b",
    RESET: rf"\breset{_NEAR}\bapn\b",
    RESTART: rf"\b(?:restart|reboot){_NEAR}\b(?:phone|device|it)\b",
    PERMIT: rf"\b(?:grant|allow|give){_NEAR}\bpermission",
    PAY: rf"\bpay\b{_NEAR}\bbill|\baccept{_NEAR}\bpayment",
    STATUS: rf"{_LOOK}status bar",
    SIM: rf"{_LOOK}sim\b",
    NETWORK: rf"{_LOOK}network settings",
    ACCESS: rf"{_LOOK}apn\b",
    MESSAGING: rf"{_LOOK}messaging app",
    CALLS: rf"{_LOOK}call settings",
    "run a speed test": r"\bspeed test",
}
_ACTIONS = (*_PATTERNS,)
assert {*CHANGES, *CHECKS} == {*_ACTIONS}
_ACTION = re.compile("|".join(f"(?P<a{i}>{_PATTERNS[a]})" for i, a in enumerate(_ACTIONS)))
_ASKED: dict[str, re.Pattern[str]] = {
    "number": re.compile(r"phone number|number of (?:the|your) (?:phone|line)|your number"),
    "name": re.compile(r"your (?:full )?name|birth|who you are"),
    "device": re.compile(r"which (?:phone|device|line)|model|which of your"),
    "place": re.compile(r"\bwhere\b|abroad|travel|which country|location"),
    "gigabytes": re.compile(r"how much (?:more )?data|how many (?:gb|gigabytes)|buy|refuel"),
}
_PROPOSAL = re.compile(
    r"(?P<data>refuel|gigabyte|\bgb\b)|(?P<bill>payment request)|"
    r"(?P<free>resume|reactivate|roaming)"
)
_WORKS = re.compile(
    r"\b(?:works?|working|solved|fixed|resolved)\b|(?:any|some)thing else|else i can|try again"
)
_DONE = {
    AUTOMATIC: "I set the network mode to automatic.",
    RESEAT: "I took the SIM card out and put it back in.",
    RESET: "I reset the APN settings. It says that I must restart the phone.",
    RESTART: "I restarted the phone.",
    PERMIT: "I granted the permissions.",
}
_COMPLAINTS = {
    "service": "There is still no signal.",
    "data": "There is still no mobile data.",
    "speed": "Mobile data is still slow.",
    "messages": "I still cannot send pictures.",
}


@dataclass(frozen=True)
class Caller:
    """The user of a task.

    Attributes:
        customer: key of the customer's record.
        line: key of the line with the problem.
        mood: one of `MOODS`.
        symptom: the problem, one of `SYMPTOMS`.
        opening: the first message.
        facts: subject of a question -> answer. A subject that is missing here is unknown.
        gigabytes: data that the user would buy. 0: none.
        price: price of these gigabytes, such as "$6".
        bills: amounts of the overdue bills, such as "$41".
        phone: the phone at the start.
        changes: the records in the operator's database that cause the problem.
        causes: number of causes at the start.
        lost: the cause, if only a human agent can solve the problem. Else "".
    """

    customer: str
    line: str
    mood: str
    symptom: str
    opening: str
    facts: dict[str, str]
    gigabytes: int
    price: str
    bills: tuple[str, ...]
    phone: Phone
    changes: Changes
    causes: int
    lost: str


@dataclass
class CallerState:
    """State of the user.

    Attributes:
        told: subjects about which the user has answered.
        done: checks and changes that the user has carried out.
        needless: number of changes that repaired nothing.
        misunderstood: number of messages in a row that the user did not understand.
    """

    told: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    needless: int = 0
    misunderstood: int = 0


def first_words(caller: Caller) -> str:
    """Returns the message with which the user starts the conversation."""
    return STYLES[caller.mood][0].format(caller.opening)


def respond(
    caller: Caller,
    user: CallerState,
    phone: Phone,
    network: Network,
    pay: Callable[[], int],
    message: str,
) -> Reply:
    """Returns the user's reply to a message of the agent. Updates the user and the phone.

    Args:
        caller: the user of the task.
        user: the user's state.
        phone: the user's phone.
        network: the state of the line in the network.
        pay: pays all bills with a payment request and returns their number.
        message: the agent's message.
    """
    _, answer, agreement, farewell = STYLES[caller.mood]
    text = message.lower()
    user.misunderstood += 1
    if CONFIRM.search(text) and (found := _PROPOSAL.search(text)):
        user.misunderstood = 0
        objection = _objection(caller, found, text)
        return Reply(answer.format(objection)) if objection else Reply(agreement, True)
    if actions := instructions(text):
        user.misunderstood = 0
        report = perform(caller, user, phone, network, pay, actions[0])
        if user.needless >= PATIENCE[caller.mood]:
            return Reply(f"{report} This changes nothing. I will ask somebody else. {STOP}")
        more = " One thing at a time, please." if len(actions) > 1 else ""
        return Reply(answer.format(report) + more)
    if asked := [subject for subject, pattern in _ASKED.items() if pattern.search(text)]:
        user.misunderstood = 0
        user.told += [subject for subject in asked if subject not in user.told]
        known = [caller.facts[subject] for subject in asked if subject in caller.facts]
        return Reply(answer.format(" ".join(known) or "I do not know that."))
    if _WORKS.search(text):
        user.misunderstood = 0
        if faults(phone, network, caller.symptom):
            return Reply(answer.format(_COMPLAINTS[caller.symptom]))
        return Reply(f"It works now. {farewell} {STOP}")
    if user.misunderstood > 4:
        return Reply(f"This does not help me. Goodbye. {STOP}")
    if DENIED.search(text):
        return Reply(answer.format("Can somebody else help me?"))
    return Reply(f"I do not understand. {caller.opening}")


def instructions(text: str) -> list[str]:
    """Returns the checks and changes that a message in lower case asks for, in its order."""
    found = [_ACTIONS[int(str(match.lastgroup)[1:])] for match in _ACTION.finditer(text)]
    return list(dict.fromkeys(found))


def perform(
    caller: Caller,
    user: CallerState,
    phone: Phone,
    network: Network,
    pay: Callable[[], int],
    action: str,
) -> str:
    """Carries out a check or a change and returns the user's report."""
    if action not in user.done:
        user.done.append(action)
    if action in CHECKS:
        return CHECKS[action](phone, network)
    if action == PAY:
        paid = pay()
        user.needless += not paid
        return "I paid the bill." if paid else "I have no payment request for a bill."
    causes = faults(phone, network, caller.symptom)
    user.needless += all(FAULTS[cause].change != action for cause in causes)
    changed = change(phone, network, action)
    if action in _DONE:
        return _DONE[action]
    _, state, name = action.split(" ", 2)
    subject = name[0].upper() + name[1:]
    return f"{subject} is {state} now." if changed else f"{subject} is {state} already."


def _objection(caller: Caller, proposal: re.Match[str], text: str) -> str:
    """Returns the user's objection to a proposal of a change in the database, or ""."""
    if proposal.lastgroup == "data":
        if not caller.gigabytes:
            return "No, I do not want to pay for more data."
        if f"{caller.gigabytes} g" not in text or not _named(caller.price, text):
            return "How many gigabytes would I get, and how much would I pay?"
    if proposal.lastgroup == "bill" and not any(_named(bill, text) for bill in caller.bills):
        return "How much is the bill?"
    return ""


def _named(amount: str, text: str) -> bool:
    """Whether an amount such as "$6" occurs in a text, and not only as a part of another one."""
    return re.search(rf"{re.escape(amount)}(?![0-9]|[.,][0-9]*[1-9])", text) is not None
