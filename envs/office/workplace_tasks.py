"""Generated assignments of `Workplace`: one or two jobs, each across several applications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.envs.office.assignment import Assignment
from agentgym.envs.office.workplace_world import (
    FIRST_HOUR,
    LAST_HOUR,
    STAGES,
    TOPICS,
    World,
    day,
    draw_world,
    one,
)
from agentgym.tasks import task_rng
from agentgym.tools import Call


@lru_cache(maxsize=4096)
def workplace_assignment(task: str, count: int | None) -> Assignment:
    """Returns an assignment.

    Args:
        task: name of the task.
        count: number of jobs, 1 or 2. None samples it.
    """
    rng = task_rng(task, "workplace")
    count = count or int(rng.integers(1, 3))
    writer = Writer(rng, draw_world(rng))
    groups = [GROUPS[i] for i in rng.permutation(len(GROUPS))[:count].tolist()]
    jobs = [one(rng, group)(writer) for group in groups]
    request = " Then do this: ".join(job.request for job in jobs)
    return Assignment(request, writer.world, tuple(call for job in jobs for call in job.calls))


@dataclass(frozen=True)
class Job:
    """A part of an assignment.

    Attributes:
        request: the request.
        calls: the calls that do it.
        about: the record of each kind that a later mission can refer to, by its key. "": none.
    """

    request: str
    calls: list[Call]
    about: dict[str, str] = field(default_factory=dict)


class Writer:
    """Writes jobs. A job may add records to the world."""

    def __init__(self, rng: np.random.Generator, world: World):
        self.rng, self.world = rng, world
        self.people = list(world["people"].values())

    def person(self) -> dict[str, str]:
        """Returns a colleague."""
        return one(self.rng, self.people)

    def receive(self, sender: str, subject: str, text: str) -> str:
        """Adds a mail to the inbox and returns its key."""
        mails = self.world["mails"]
        key = f"m{len(mails) + 1}"
        mail = {"from": sender, "subject": subject, "date": day(0), "folder": "inbox", "text": text}
        mails[key] = mail
        return key

    def of_owner(self, owner: str) -> dict[str, Any]:
        """Returns the customers of a colleague."""
        customers = self.world["customers"].items()
        return {key: entry for key, entry in customers if entry["owner"] == owner}

    def owner(self) -> dict[str, str]:
        """Returns a colleague with customers."""
        owners = {entry["owner"] for entry in self.world["customers"].values()}
        return one(self.rng, [p for p in self.people if p["email"] in owners])


def _send_phone(w: Writer) -> Job:
    sender, key = w.person(), one(w.rng, list(w.world["customers"]))
    customer = w.world["customers"][key]
    mail = w.receive(
        sender["email"], "Question", f"Please send me the phone number of {customer['name']}."
    )
    answer = {"to": sender["email"], "subject": "Phone number", "text": customer["phone"]}
    return Job(
        f"{sender['name']} asked for a phone number in a mail with the subject Question. Answer by "
        "mail, with the subject 'Phone number' and nothing but the number as the text.",
        [
            find_call(sender),
            Call("search_mail", {"sender": sender["email"]}),
            Call("read_mail", {"mail_id": mail}),
            Call("search_customers", {"field": "name", "value": customer["name"]}),
            Call("get_customer", {"customer_id": key}),
            Call("send_mail", answer),
        ],
        {"mail": f"{sender['email']}: Phone number", "customer": key, "person": sender["name"]},
    )


def _accept_meeting(w: Writer) -> Job:
    sender, topic = w.person(), one(w.rng, TOPICS)
    date, hour = day(int(w.rng.integers(7, 12))), int(w.rng.integers(FIRST_HOUR, LAST_HOUR))
    minutes = 15 * int(w.rng.integers(1, 5))
    text = f"Can we talk about {topic} on {date} at {hour:02}:00, for {minutes} minutes?"
    mail = w.receive(sender["email"], "Meeting", text)
    event = {
        "title": topic,
        "date": date,
        "start": f"{hour:02}:00",
        "minutes": minutes,
        "attendees": [sender["email"]],
    }
    return Job(
        f"{sender['name']} proposed a meeting in a mail with the subject Meeting. Put it into the "
        "calendar with the topic as the title, and move the mail to the folder 'done'.",
        [
            find_call(sender),
            Call("search_mail", {"sender": sender["email"]}),
            Call("read_mail", {"mail_id": mail}),
            Call("create_event", event),
            Call("move_mail", {"mail_id": mail, "folder": "done"}),
        ],
        {"event": f"{date} {hour:02}:00 {topic}", "person": sender["name"]},
    )


def _file_mail(w: Writer) -> Job:
    mails = w.world["mails"]
    sender = one(w.rng, [mail["from"] for mail in mails.values()])
    name = next(p["name"] for p in w.people if p["email"] == sender)
    topic = one(w.rng, [mail["subject"] for mail in mails.values() if mail["from"] == sender])
    keys = [k for k, m in mails.items() if (m["from"], m["subject"]) == (sender, topic)]
    folder = topic.lower()
    return Job(
        f"Move all mails of {name} with the subject {topic} to the folder '{folder}'.",
        [
            find_call(w.world["people"][name]),
            Call("search_mail", {"sender": sender}),
            *(Call("move_mail", {"mail_id": key, "folder": folder}) for key in keys),
        ],
    )


def _move_meeting(w: Writer) -> Job:
    key = one(w.rng, list(w.world["events"]))
    event = w.world["events"][key]
    taken = [e["start"] for e in w.world["events"].values() if e["date"] == event["date"]]
    hours = [f"{hour:02}:00" for hour in range(FIRST_HOUR, LAST_HOUR)]
    late = bool(w.rng.random() < 0.5)
    free = [hour for hour in hours if hour not in taken][-1 if late else 0]
    return Job(
        f"Move the meeting {event['title']} on {event['date']} to the {'last' if late else 'first'}"
        f" full hour of that day without a meeting, between {hours[0]} and {hours[-1]}.",
        [
            Call("list_events", {"date": event["date"]}),
            Call("move_event", {"event_id": key, "date": event["date"], "start": free}),
        ],
        {"event": key},
    )


def _free_day(w: Writer) -> Job:
    date = day(int(w.rng.integers(5)))
    events = {k: e for k, e in w.world["events"].items() if e["date"] == date}
    calls = [Call("list_events", {"date": date})]
    for key, event in events.items():
        calls.append(Call("cancel_event", {"event_id": key}))
        for email in event["attendees"]:
            mail = {"to": email, "subject": f"Cancelled: {event['title']}", "text": "Sorry."}
            calls.append(Call("send_mail", mail))
    return Job(
        f"Cancel all meetings on {date}. Send each attendee of each meeting a mail with the "
        "subject 'Cancelled: ' and the title of the meeting, and the text 'Sorry.'.",
        calls,
    )


def _hand_over(w: Writer) -> Job:
    old = w.owner()
    stage = one(w.rng, [entry["stage"] for entry in w.of_owner(old["email"]).values()])
    new = one(w.rng, [person for person in w.people if person is not old])
    mine = w.of_owner(old["email"])
    chosen = [key for key, entry in mine.items() if entry["stage"] == stage]
    change = {"field": "owner", "value": new["email"]}
    return Job(
        f"Make {new['name']} the owner of all customers of {old['name']} in the stage {stage}.",
        [
            *(find_call(old), find_call(new)),
            Call("search_customers", {"field": "owner", "value": old["email"]}),
            *(Call("get_customer", {"customer_id": key}) for key in mine),
            *(Call("set_customer", {"customer_id": key, **change}) for key in chosen),
        ],
    )


def _give_up(w: Writer) -> Job:
    owner = w.owner()
    mine = w.of_owner(owner["email"])
    dates = [entry["last_contact"] for entry in mine.values() if entry["stage"] != "lost"]
    if not dates:
        return _hand_over(w)
    date = one(w.rng, dates)
    change = {"field": "stage", "value": "lost"}
    stale = [k for k, e in mine.items() if e["last_contact"] <= date and e["stage"] != "lost"]
    return Job(
        f"Set the stage of all customers of {owner['name']} to lost if the last contact was on "
        f"{date} or earlier.",
        [
            find_call(owner),
            Call("search_customers", {"field": "owner", "value": owner["email"]}),
            *(Call("get_customer", {"customer_id": key}) for key in mine),
            *(Call("set_customer", {"customer_id": key, **change}) for key in stale),
        ],
    )


def _write_report(w: Writer) -> Job:
    customers = w.world["customers"].values()
    stage = one(w.rng, [entry["stage"] for entry in customers])
    names = sorted(entry["name"] for entry in customers if entry["stage"] == stage)
    path = f"reports/{stage}.txt"
    return Job(
        f"Write the names of all customers in the stage {stage} to the file {path}, one per line, "
        "in alphabetical order.",
        [
            Call("search_customers", {"field": "stage", "value": stage}),
            Call("write_file", {"path": path, "text": "\n".join(names)}),
        ],
        {"file": path},
    )


def _log_call(w: Writer) -> Job:
    key = one(w.rng, list(w.world["customers"]))
    customer, date = w.world["customers"][key], day(-int(w.rng.integers(0, 4)))
    stage = one(w.rng, STAGES[:3])
    note = f"They want {one(w.rng, ('a discount', 'a visit', 'a catalogue', 'more time'))}."
    text = f"Customer: {customer['name']}\nDate: {date}\nStage: {stage}\nNote: {note}"
    w.world["files"]["calls/call.txt"] = text
    changes = [("last_contact", date)] + [("stage", stage)] * (customer["stage"] != stage)
    return Job(
        "The file calls/call.txt describes a call. Add the note to the customer, and update the "
        "date of the last contact and the stage.",
        [
            Call("read_file", {"path": "calls/call.txt"}),
            Call("search_customers", {"field": "name", "value": customer["name"]}),
            Call("add_note", {"customer_id": key, "text": note}),
            *(
                Call("set_customer", {"customer_id": key, "field": field, "value": value})
                for field, value in changes
            ),
        ],
        {"customer": key},
    )


def _publish_draft(w: Writer) -> Job:
    path = one(w.rng, [path for path in w.world["files"] if path.startswith("drafts/")])
    owner = w.person()
    name = path.rpartition("/")[2]
    mail = {"to": owner["email"], "subject": name, "text": w.world["files"][path]}
    return Job(
        f"Send the content of the file {path} to {owner['name']}, with the name {name} as the "
        "subject, and move the file to the folder published.",
        [
            *(find_call(owner), Call("read_file", {"path": path})),
            Call("send_mail", mail),
            Call("move_file", {"path": path, "new_path": f"published/{name}"}),
        ],
        {"file": f"published/{name}", "mail": f"{owner['email']}: {name}", "person": owner["name"]},
    )


def find_call(person: dict[str, str]) -> Call:
    """Returns the call that looks a colleague up."""
    return Call("find_person", {"name": person["name"]})


Write = Callable[[Writer], Job]
GROUPS: tuple[tuple[Write, ...], ...] = (
    (_send_phone, _accept_meeting, _file_mail),
    (_move_meeting, _free_day),
    (_hand_over, _give_up, _write_report, _log_call),
    (_publish_draft,),
)
"""Kinds of jobs. Jobs of different groups never change the same records."""
OPENINGS: tuple[Write, ...] = (
    *(_send_phone, _accept_meeting, _move_meeting, _write_report, _log_call, _publish_draft),
)
"""Kinds of jobs with records that a later mission can refer to."""
