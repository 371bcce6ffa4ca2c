"""The tools of `Workplace`: mail, calendar, files and customers of one firm."""

from __future__ import annotations

import re
from datetime import date as calendar_date
from typing import Any, Literal

from agentgym.envs.office.assignment import AssignmentEnv
from agentgym.envs.office.workplace_world import STAGES, World
from agentgym.tools import ToolError, tool

LONGEST_TEXT = 2000
_TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_PATH = re.compile(r"[a-z0-9]+/[a-z0-9_.-]{1,60}")
_FOLDER = re.compile(r"[a-z0-9 ]{1,40}")
Field = Literal["owner", "stage", "last_contact", "phone"]


class WorkplaceTools(AssignmentEnv):
    """Base class of environments in the world of `draw_world`."""

    def _compared(self, world: World) -> World:
        """Returns a world in which the ids of meetings do not matter."""
        events = sorted(world["events"].values(), key=lambda event: sorted(event.items()))
        return {**world, "events": {str(i): event for i, event in enumerate(events)}}

    @tool
    def find_person(self, name: str) -> dict[str, str]:
        """Shows email address and team of a colleague.

        Args:
            name: first and last name.
        """
        return self._find("people", name)

    @tool
    def search_mail(self, sender: str) -> dict[str, dict[str, str]]:
        """Lists the mails of a sender, without their texts.

        Args:
            sender: email address.
        """
        shown = ("subject", "date", "folder")
        mails = self.state.world["mails"].items()
        return {k: {s: m[s] for s in shown} for k, m in mails if m["from"] == sender}

    @tool
    def read_mail(self, mail_id: str) -> dict[str, str]:
        """Shows a mail.

        Args:
            mail_id: such as "m1".
        """
        return self._find("mails", mail_id)

    @tool
    def move_mail(self, mail_id: str, folder: str) -> None:
        """Moves a mail to a folder. A new folder is created.

        Args:
            mail_id: such as "m1".
            folder: in lower case.
        """
        mail = self._find("mails", mail_id)
        if not _FOLDER.fullmatch(folder):
            raise ToolError("A folder has 1 to 40 letters and digits in lower case.")
        mail["folder"] = folder

    @tool
    def send_mail(self, to: str, subject: str, text: str) -> None:
        """Sends a mail to a colleague.

        Args:
            to: email address.
            subject: the subject.
            text: the text.
        """
        self._check_person(to)
        key = f"{to}: {_checked(subject)}"
        if key in self.state.world["sent"]:
            raise ToolError("A mail with this subject was already sent to this address.")
        self.state.world["sent"][key] = _checked(text)

    @tool
    def list_events(self, date: str) -> dict[str, dict[str, Any]]:
        """Lists the meetings of a day.

        Args:
            date: such as "2025-06-02".
        """
        day = _checked_date(date)
        events = self.state.world["events"].items()
        return {key: event for key, event in events if event["date"] == day}

    @tool
    def create_event(
        self, title: str, date: str, start: str, minutes: int, attendees: list[str]
    ) -> str:
        """Puts a meeting into the calendar and returns its id.

        Args:
            title: title of the meeting.
            date: such as "2025-06-02".
            start: such as "09:00".
            minutes: duration, 5 to 480.
            attendees: email addresses of the other people.
        """
        for email in attendees:
            self._check_person(email)
        if not 5 <= minutes <= 480:
            raise ToolError("A meeting takes 5 to 480 minutes.")
        event = {
            "title": _checked(title),
            "date": _checked_date(date),
            "start": _checked_time(start),
            "minutes": minutes,
            "attendees": sorted(set(attendees)),
        }
        key = f"{event['date']} {event['start']} {event['title']}"
        if key in self.state.world["events"]:
            raise ToolError("This meeting is in the calendar already.")
        self.state.world["events"][key] = event
        return key

    @tool
    def move_event(self, event_id: str, date: str, start: str) -> None:
        """Moves a meeting.

        Args:
            event_id: such as "e1".
            date: the new date.
            start: the new start, such as "09:00".
        """
        event = self._find("events", event_id)
        event |= {"date": _checked_date(date), "start": _checked_time(start)}

    @tool
    def cancel_event(self, event_id: str) -> None:
        """Removes a meeting from the calendar.

        Args:
            event_id: such as "e1".
        """
        self._find("events", event_id)
        del self.state.world["events"][event_id]

    @tool
    def list_files(self) -> list[str]:
        """Lists the paths of all files."""
        return list(self.state.world["files"])

    @tool
    def read_file(self, path: str) -> str:
        """Shows the text of a file.

        Args:
            path: such as "drafts/budget.txt".
        """
        return self._find("files", path)

    @tool
    def write_file(self, path: str, text: str) -> None:
        """Writes a file, new or not.

        Args:
            path: such as "drafts/budget.txt".
            text: the whole text.
        """
        self.state.world["files"][_checked_path(path)] = _checked(text)

    @tool
    def move_file(self, path: str, new_path: str) -> None:
        """Moves a file.

        Args:
            path: such as "drafts/budget.txt".
            new_path: a path without a file.
        """
        text = self._find("files", path)
        if _checked_path(new_path) in self.state.world["files"]:
            raise ToolError(f"There is a file {new_path} already.")
        del self.state.world["files"][path]
        self.state.world["files"][new_path] = text

    @tool
    def search_customers(
        self, field: Literal["name", "owner", "stage"], value: str
    ) -> dict[str, str]:
        """Lists ids and names of the customers whose field has a value.

        Args:
            field: the field.
            value: its value. An owner is an email address.
        """
        customers = self.state.world["customers"].items()
        wanted = value.strip().lower()
        return {key: entry["name"] for key, entry in customers if entry[field].lower() == wanted}

    @tool
    def get_customer(self, customer_id: str) -> dict[str, Any]:
        """Shows a customer.

        Args:
            customer_id: such as "c1".
        """
        return self._find("customers", customer_id)

    @tool
    def set_customer(self, customer_id: str, field: Field, value: str) -> None:
        """Changes a field of a customer.

        Args:
            customer_id: such as "c1".
            field: the field.
            value: the new value. An owner is an email address.
        """
        customer = self._find("customers", customer_id)
        if field == "owner":
            self._check_person(value)
        elif field == "stage" and value not in STAGES:
            raise ToolError(f"A stage is one of {', '.join(STAGES)}.")
        elif field == "last_contact":
            value = _checked_date(value)
        customer[field] = _checked(value)

    @tool
    def add_note(self, customer_id: str, text: str) -> None:
        """Adds a note to a customer.

        Args:
            customer_id: such as "c1".
            text: the note.
        """
        self._find("customers", customer_id)["notes"].append(_checked(text))

    def _check_person(self, email: str) -> None:
        people = self.state.world["people"].values()
        if not any(person["email"] == email for person in people):
            raise ToolError(f"No colleague has the address {email[:60]!r}.")


def _checked(text: str) -> str:
    text = text.strip()
    if not 0 < len(text) <= LONGEST_TEXT:
        raise ToolError(f"A text must have 1 to {LONGEST_TEXT:,} characters, got {len(text):,}.")
    return text


def _checked_date(text: str) -> str:
    try:
        return str(calendar_date.fromisoformat(text))
    except ValueError:
        raise ToolError(f"A date is written like 2025-06-02, got {text[:20]!r}.") from None


def _checked_time(text: str) -> str:
    if not _TIME.fullmatch(text):
        raise ToolError(f"A time is written like 09:00, got {text[:20]!r}.")
    return text


def _checked_path(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ToolError(f"A path is written like drafts/budget.txt, got {path[:60]!r}.")
    return path
