"""Generated missions of `WorkplaceMissions`: a job, then jobs on the records of earlier ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache

from agentgym.envs.office.assignment import Assignment
from agentgym.envs.office.workplace_tasks import OPENINGS, Job, Writer, find_call
from agentgym.envs.office.workplace_tools import WorkplaceTools
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
from agentgym.tools import Call, ToolError

FEWEST, MOST = 2, 4
"""Number of missions."""
NEW_TOPIC = 0.3
"""Probability that a mission between the first and the last one is not a follow-up."""
_KINDS = {
    "event": ("that meeting", "the meeting of mission {}"),
    "customer": ("that customer", "the customer of mission {}"),
    "file": ("that file", "the file of mission {}"),
    "mail": ("the mail that you have just sent", "the mail that you sent in mission {}"),
    "person": ("the same colleague", "the colleague of mission {}"),
}
"""How a request refers to a record of the mission before, and to one of an earlier mission."""


@lru_cache(maxsize=4096)
def missions_of(task: str, count: int | None) -> tuple[Assignment, ...]:
    """Returns the missions of a task. The world of each is the result of those before.

    Args:
        task: name of the task.
        count: number of missions, `FEWEST` to `MOST`. None samples it.
    """
    rng = task_rng(task, f"missions {count}")
    count = count or int(rng.integers(FEWEST, MOST + 1))
    openings = [OPENINGS[i] for i in rng.permutation(len(OPENINGS)).tolist()]
    world, office = draw_world(rng), WorkplaceTools()
    known: dict[str, tuple[str, int]] = {}  # the last record of each kind, and its mission
    missions: list[Assignment] = []
    while len(missions) < count:
        number = len(missions) + 1
        writer = Writer(rng, copy.deepcopy(world))
        if not known or (number < count and rng.random() < NEW_TOPIC):
            job = openings[number](writer)
        else:
            job = _follow_up(writer, known, number)
        mission = Assignment(job.request, writer.world, tuple(job.calls))
        try:
            result = office.expected_world(mission)
        except ToolError:  # such as a second mail with the same subject to the same address
            continue
        if result == mission.world or _confusable(result):
            continue
        world = result
        missions.append(mission)
        known |= {kind: (key, number) for kind, key in job.about.items()}
        known = {kind: found for kind, found in known.items() if found[0]}
    return tuple(missions)


def _confusable(world: World) -> bool:
    """Returns whether two meetings have the same title and day, by which requests name one."""
    names = [(event["title"], event["date"]) for event in world["events"].values()]
    return len({*names}) < len(names)


def _follow_up(w: Writer, known: dict[str, tuple[str, int]], number: int) -> Job:
    """Returns a job on a record of an earlier mission."""
    kind = one(w.rng, sorted(known))
    key, mission = known[kind]
    just, earlier = _KINDS[kind]
    that = just if mission == number - 1 else earlier.format(mission)
    job = one(w.rng, FOLLOW_UPS[kind])(w, key, that)
    return Job(job.request, job.calls, {kind: key, **job.about})


def _forward(w: Writer, key: str, that: str) -> Job:
    subject = key.partition(": ")[2]
    person = w.person()
    mail = {"to": person["email"], "subject": subject, "text": w.world["sent"][key]}
    return Job(
        f"Send {that} to {person['name']} as well, with the same subject and text.",
        [find_call(person), Call("send_mail", mail)],
        {"mail": f"{person['email']}: {subject}", "person": person["name"]},
    )


def _postpone(w: Writer, key: str, that: str) -> Job:
    date, start = _later(w)
    move = {"event_id": key, "date": date, "start": start}
    return Job(f"Move {that} to {date} at {start}.", [Call("move_event", move)])


def _cancel(w: Writer, key: str, that: str) -> Job:
    event = w.world["events"][key]
    mail = {"subject": f"Cancelled: {event['title']}", "text": "Sorry."}
    return Job(
        f"Cancel {that}. Send each attendee a mail with the subject 'Cancelled: ' and the title "
        "of the meeting, and the text 'Sorry.'.",
        [
            Call("cancel_event", {"event_id": key}),
            *(Call("send_mail", {"to": email, **mail}) for email in event["attendees"]),
        ],
        {"event": ""},
    )


def _write_down(w: Writer, key: str, that: str) -> Job:
    event = w.world["events"][key]
    path = f"notes/{event['title'].lower()}.txt"
    text = f"{event['date']} {event['start']}"
    return Job(
        f"Write date and start of {that}, like 2025-06-02 09:00, to the file {path}.",
        [Call("write_file", {"path": path, "text": text})],
        {"file": path},
    )


def _reassign(w: Writer, key: str, that: str) -> Job:
    owner = w.world["customers"][key]["owner"]
    person = one(w.rng, [person for person in w.people if person["email"] != owner])
    change = {"customer_id": key, "field": "owner", "value": person["email"]}
    return Job(
        f"Make {person['name']} the owner of {that}.",
        [find_call(person), Call("set_customer", change)],
        {"person": person["name"]},
    )


def _remark(w: Writer, key: str, that: str) -> Job:
    stage = one(w.rng, [s for s in STAGES if s != w.world["customers"][key]["stage"]])
    change = {"customer_id": key, "field": "stage", "value": stage}
    return Job(
        f"Set the stage of {that} to {stage}, and add the note 'Now {stage}.'.",
        [
            Call("set_customer", change),
            Call("add_note", {"customer_id": key, "text": f"Now {stage}."}),
        ],
    )


def _archive(w: Writer, key: str, that: str) -> Job:
    path = f"archive/{key.rpartition('/')[2]}"
    return Job(
        f"Move {that} to the folder archive.",
        [Call("move_file", {"path": key, "new_path": path})],
        {"file": path},
    )


def _share(w: Writer, key: str, that: str) -> Job:
    person, name = w.person(), key.rpartition("/")[2]
    mail = {"to": person["email"], "subject": name, "text": w.world["files"][key]}
    return Job(
        f"Send the content of {that} to {person['name']}, with the name of the file, without its "
        "folder, as the subject.",
        [find_call(person), Call("read_file", {"path": key}), Call("send_mail", mail)],
        {"mail": f"{person['email']}: {name}", "person": person["name"]},
    )


def _thank(w: Writer, key: str, that: str) -> Job:
    email, subject = w.world["people"][key]["email"], one(w.rng, ("Thanks", "Done", "News"))
    return Job(
        f"Send {that} a mail with the subject '{subject}' and the text 'It is done.'.",
        [Call("send_mail", {"to": email, "subject": subject, "text": "It is done."})],
        {"mail": f"{email}: {subject}"},
    )


def _meet(w: Writer, key: str, that: str) -> Job:
    (date, start), topic = _later(w), one(w.rng, TOPICS)
    event = {"title": topic, "date": date, "start": start, "minutes": 30}
    event["attendees"] = [w.world["people"][key]["email"]]
    return Job(
        f"Put a meeting with {that} into the calendar, with the title {topic}, on {date} at "
        f"{start}, for 30 minutes.",
        [Call("create_event", event)],
        {"event": f"{date} {start} {topic}"},
    )


def _later(w: Writer) -> tuple[str, str]:
    """Returns a day after the next week, and a full hour."""
    return day(int(w.rng.integers(14, 19))), f"{int(w.rng.integers(FIRST_HOUR, LAST_HOUR)):02}:00"


FOLLOW_UPS: dict[str, tuple[Callable[[Writer, str, str], Job], ...]] = {
    "event": (_postpone, _cancel, _write_down),
    "customer": (_reassign, _remark),
    "file": (_archive, _share),
    "mail": (_forward,),
    "person": (_thank, _meet),
}
"""Jobs on a record of each kind."""
