"""MiniWoBText: forms, menus, mail and calendars on pages that are shown as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentgym.core import TextEnv, TimeStep, TurnLimit
from agentgym.envs.web.sites import KINDS, Site, Widget, sites_of
from agentgym.errors import ConfigError
from agentgym.tasks import Tasks
from agentgym.utils.action_parsing import code_command

LONGEST = 100
"""Maximum number of characters of a typed text."""
_ACTION = re.compile(
    r"(click|type|select|clear)[ \t]+\[?(\d{1,3})\]?[.:]?(?:[ \t]+(\S.*))?", re.IGNORECASE
)
_SECOND = re.compile(
    r"(?:^|[,;.&]|\b(?:and|then)\b)[ \t]{0,9}(?:(?:and|then)[ \t]{1,9}){0,2}"
    r"(?:(?:click|type|select|clear)[ \t]+)?\[?\d{1,3}\]?(?:[ \t]|$)",
    re.IGNORECASE,
)
"""The beginning of a second action, or a second number, in the text of the first one."""
_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'|`([^`]+)`")
_VERBS = ("click", "type", "select", "clear")
_CLICKED = ("button", "link", "tab", "checkbox", "radio")


@dataclass
class State:
    """The current site and page, and the fields.

    Attributes:
        site: index of the current site.
        page: the page that is shown.
        fields: values of the fields of the site. A missing field is "".
        failed: whether the last click was wrong.
    """

    site: int = 0
    page: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    failed: bool = False


def _unquoted(text: str) -> str:
    """Returns the text of an action without quotes around it."""
    quoted = _QUOTED.fullmatch(text.strip())
    return next(filter(None, quoted.groups())) if quoted else text.strip()


def _is_second(verb: str, text: str) -> bool:
    """Whether the text of an action has another one, as in "type 1 Ada, type 2 tea"."""
    found = _SECOND.search(text)
    named = found is not None and any(each in found[0].lower() for each in _VERBS)
    return found is not None and (named or verb in ("click", "clear"))


def _names(text: str, widget: Widget) -> bool:
    """Whether the text behind a click is empty, or the label or the role of the widget."""
    words, label = _unquoted(text.strip(" ().:-")).strip(" ().").casefold(), widget.label.casefold()
    return words in ("", label, widget.role, f"{widget.role} {label}", f"{label} {widget.role}")


class MiniWoBText(TextEnv):
    """Do a task on web pages that are shown as a list of numbered widgets.

    ## Description
    There are 14 kinds of tasks: buttons, dialogs, texts, a log-in, checkboxes, options, lists,
    tabs, menus, mails to be deleted, starred, answered or forwarded, a calendar, and the booking of
    a flight. A page is a list of widgets, as in the accessibility tree of a browser. A task ends
    with its final click, such as Submit. With `length`, several tasks follow each other.

    ## Action Space
    Text, one of:

    - `click 3`: click the button, link, tab, checkbox or option with the number 3.
    - `type 2 Ada`: replace the text of a textbox.
    - `clear 2`: empty a textbox or a list.
    - `select 4 Oslo`: select an entry of a list.

    ## Observation Space
    Text: the task, and the widgets of the page with their states.

    ## Rewards
    1 (term `task`) if the final click of each task is the right one, and all fields have the
    requested values. Else 0. An invalid action costs `invalid_penalty`.

    ## Starting State
    Tasks and pages are sampled from the task name. No list of pages is in both splits.

    ## Episode End
    Termination: the last task is done, or a final click is wrong. Truncation: after `max_turns`
    turns.

    ## Information
    The common keys. `progress` is the fraction of the tasks that are done. `admissible` lists the
    clicks, the entries of lists, and some texts for each textbox, the right ones among them. Other
    texts can be typed, too.

    ## Arguments
    - `kind` (str, default "mixed"): one of "click-button", "click-dialog", "enter-text", "log-in",
      "check-boxes", "choose-option", "choose-list", "open-tab", "open-menu", "tidy-mail",
      "answer-mail", "forward-mail", "add-event" and "book-flight", or "mixed".
    - `length` (int, default 1): number of tasks in a row, 1 to 10.
    - `max_turns` (int, None or "auto", default "auto"): turn limit. "auto" is 15 per task.

    ## References
    MiniWoB (Shi et al., ICML 2017) and MiniWoB++ (arXiv 1802.08802), whose tasks are the models of
    these. Compositions of tasks: CompWoB (arXiv 2311.18751). Pages and texts are our own. There is
    no time limit, and wrong clicks before the final one do no harm.

    ## Version History
    v0: first version.
    """

    instructions = (
        "Do tasks on web pages. A page is a list of numbered widgets.\n"
        "Each turn, reply with one action:\n"
        "- click 3 (a button, link, tab, checkbox or radio button)\n"
        "- type 2 Ada (replaces the text of a textbox)\n"
        "- clear 2 (empties a textbox or a combobox)\n"
        "- select 4 Oslo (an entry of a combobox)\n"
        "Rules:\n"
        "- A task ends with its final click, such as Submit.\n"
        "- Set the requested fields and no others before it.\n"
        "- A wrong final click ends the episode with a reward of 0.\n"
        "The reward is 1 if all tasks are done."
    )
    State = State
    cased = True

    def __init__(
        self,
        *,
        kind: str = "mixed",
        length: int = 1,
        max_turns: TurnLimit = "auto",
        **kwargs,
    ):
        if kind not in (*KINDS, "mixed"):
            raise ConfigError(f"kind must be one of {(*KINDS, 'mixed')}, got {kind!r}.")
        if not 1 <= length <= 10:
            raise ConfigError(f"length must be 1 to 10, got {length}.")
        super().__init__(max_turns=15 * length if max_turns == "auto" else max_turns, **kwargs)
        self.kind, self.length = kind, length
        self.tasks = Tasks.generated()

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of the task, which snapshots do not contain."""
        return sites_of(self.task, self.kind, self.length)

    @property
    def site(self) -> Site:
        """The current site, or the last one after the end."""
        return self.sites[min(self.state.site, self.length - 1)]

    def _start(self, task: str) -> TimeStep:
        self.state = State()
        self.state.page = next(iter(self.site.pages))
        return self._look()

    def _advance(self, action: str) -> TimeStep:
        found = _ACTION.fullmatch(code_command(action))
        if found is None:
            return self._invalid("Reply with click, type, clear or select and a number.")
        widgets, number = self.site.pages[self.state.page], int(found[2])
        if not 1 <= number <= len(widgets):
            return self._invalid(f"The page has the widgets 1 to {len(widgets)}, got {number}.")
        widget, verb, text = widgets[number - 1], found[1].lower(), _unquoted(found[3] or "")
        if text == (found[3] or "").strip() and _is_second(verb, text):  # quoted texts are texts
            return self._invalid("Reply with one action only.")
        if verb in ("click", "clear") and not _names(text, widget):
            return self._invalid(f"Widget {number} is the {widget.role} {widget.label!r}.")
        if verb == "click" and widget.role in _CLICKED:
            return self._click(widget)
        if verb == "type" and widget.role == "textbox" and 0 < len(text) <= LONGEST:
            return self._set(widget, text.strip())
        if verb == "select":
            options = [each for each in widget.options if each.casefold() == text.casefold()]
            if len(options) == 1:
                return self._set(widget, options[0])
        if verb == "clear" and widget.role in ("textbox", "combobox"):
            return self._set(widget, "")
        return self._invalid(f"{action[:60]!r} is not possible with the {widget.role} {number}.")

    def _set(self, widget: Widget, value: str) -> TimeStep:
        self.state.fields.pop(widget.field, None)
        if value:
            self.state.fields[widget.field] = value
        return self._look()

    def _click(self, widget: Widget) -> TimeStep:
        state = self.state
        if widget.role == "checkbox":
            return self._set(widget, "" if state.fields.get(widget.field) else "on")
        if widget.role == "radio":
            return self._set(widget, widget.label)
        if widget.page:
            state.page = widget.page
            return self._look()
        if widget.end != self.site.end or state.fields != self.site.goal:
            state.failed = True
            return self._look()
        state.site, state.fields = state.site + 1, {}
        state.page = next(iter(self.site.pages))
        return self._look()

    def _shown(self, number: int, widget: Widget) -> str:
        """Returns a widget as a line of text."""
        value = self.state.fields.get(widget.field, "")
        line = f'[{number}] {widget.role} "{widget.label}"'
        if widget.role == "checkbox":
            return line + " checked" * bool(value)
        if widget.role == "radio":
            return line + " chosen" * (value == widget.label)
        if widget.role == "combobox":
            line += f" of {', '.join(widget.options)}"
        return line + f': "{value}"' * bool(widget.field)

    def _look(self) -> TimeStep:
        state, site = self.state, self.site
        solved = state.site == self.length
        done = solved or state.failed
        widgets = site.pages[state.page]
        lines = [self._shown(i, widget) for i, widget in enumerate(widgets, start=1)]
        which = f"Task {state.site + 1} of {self.length}" if self.length > 1 else "Task"
        text = "\n".join([f"{which}: {site.text}", f"Page: {state.page}", *lines])
        if done:
            text = "Done." if solved else "That was the wrong final click, or a field was wrong."
        shown = {widget.field for widget in widgets}
        hidden = sorted(item for item in state.fields.items() if item[0] not in shown)
        return TimeStep(
            text=text,
            state_key=text if done or not hidden else f"{text}\n{hidden}",
            rewards={"task": float(solved)},
            terminated=done,
            success=solved,
            progress=state.site / self.length,
            admissible=() if done else tuple(self._possible()),
        )

    def _possible(self) -> Iterator[str]:
        """Yields the admissible actions."""
        for i, widget in enumerate(self.site.pages[self.state.page], start=1):
            if widget.role in _CLICKED:
                yield f"click {i}"
            else:
                yield f"clear {i}"
            for option in widget.options:
                yield f"select {i} {option}"
            if widget.role == "textbox":
                for text in sorted(self.site.texts):
                    yield f"type {i} {text}"

    def _restored(self) -> None:
        state = self.state
        if not 0 <= state.site <= self.length or state.page not in self.site.pages:
            raise ValueError("the page is one of another task")

    def expert(self) -> str | None:
        """Sets the fields that are wrong, then makes the final click."""
        state, site = self.state, self.site
        wrong = {
            name
            for name in {*site.goal, *state.fields}
            if site.goal.get(name, "") != state.fields.get(name, "")
        }
        targets = {
            page: next((i for i, w in enumerate(widgets) if self._needed(w, wrong)), None)
            for page, widgets in site.pages.items()
        }
        if (at := targets[state.page]) is None:
            return f"click {self._way(targets) + 1}"
        widget, number = site.pages[state.page][at], at + 1
        value = site.goal.get(widget.field, "")
        if widget.role in _CLICKED:
            return f"click {number}"
        verb = "type" if widget.role == "textbox" else "select"
        return f"{verb} {number} {value}" if value else f"clear {number}"

    def _needed(self, widget: Widget, wrong: set[str]) -> bool:
        """Whether the expert needs a widget: it sets a wrong field, or makes the final click."""
        if not wrong:
            return widget.end == self.site.end
        chosen = widget.role != "radio" or self.site.goal.get(widget.field) == widget.label
        return widget.field in wrong and chosen

    def _way(self, targets: dict[str, int | None]) -> int:
        """Returns the widget of the page on the shortest way to a page with a target."""
        pages = self.site.pages
        reached = {page for page, at in targets.items() if at is not None}
        while True:
            for i, widget in enumerate(pages[self.state.page]):
                if widget.page in reached:
                    return i
            nearer = {p for p, ws in pages.items() if any(w.page in reached for w in ws)}
            assert nearer - reached, "every page leads to every other"
            reached |= nearer
