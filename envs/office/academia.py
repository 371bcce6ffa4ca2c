"""Academia: questions about generated papers and their authors."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import product
from typing import Any

from agentgym.envs.office.assignment import Assignment, AssignmentEnv
from agentgym.tasks import task_rng
from agentgym.tools import Call, ToolError, tool

FIRST = ("Amara", "Bela", "Chen", "Dita", "Erik", "Fatou", "Goran", "Hiro")
LAST = ("Aalto", "Bauer", "Costa", "Diaz", "Eriksen", "Fontana", "Gruber")
METHODS = ("Sparse", "Robust", "Online", "Neural", "Causal", "Bayesian", "Federated", "Convex")
TOPICS = ("Clustering", "Planning", "Retrieval", "Parsing", "Scheduling", "Matching", "Sampling")
VENUES = ("Journal of Methods", "Learning Letters", "Systems Review", "Data Conference")
PLACES = ("Northern University", "Coastal Institute", "Valley College", "Summit Laboratory")
PAPERS = 40


@lru_cache(maxsize=32)
def index(name: str) -> dict[str, dict[str, Any]]:
    """Returns the tables "papers" and "authors" of a generated index.

    Args:
        name: name of the index.
    """
    rng = task_rng(name, "academia_index")
    authors = {
        f"{first} {last}": {"institution": PLACES[int(rng.integers(4))], "papers": []}
        for first, last in product(FIRST, LAST)
    }
    # Few authors, so that common co-authors are frequent.
    names = [list(authors)[i] for i in rng.permutation(len(authors))[:20].tolist()]
    titles = [f"{method} {topic}" for method, topic in product(METHODS, TOPICS)]
    citations = rng.permutation(500).tolist()
    papers = {}
    for i in rng.permutation(len(titles))[:PAPERS].tolist():
        group = [names[j] for j in rng.permutation(len(names))[: int(rng.integers(2, 5))].tolist()]
        papers[titles[i]] = {
            "authors": group,
            "year": int(rng.integers(2000, 2025)),
            "venue": VENUES[int(rng.integers(len(VENUES)))],
            "citations": citations.pop(),
        }
        for author in group:
            authors[author]["papers"].append(titles[i])
    return {"papers": papers, "authors": {name: authors[name] for name in names}}


@lru_cache(maxsize=4096)
def draw_assignment(task: str) -> Assignment:
    """Returns the question of a task."""
    rng = task_rng(task, "academia")
    name = f"{task.partition('/')[0]}/{int(rng.integers(8))}"
    tables = index(name)
    papers, authors = tables["papers"], tables["authors"]
    active = [author for author, entry in authors.items() if entry["papers"]]
    one, two = (active[i] for i in rng.permutation(len(active))[:2].tolist())
    written = authors[one]["papers"]
    looked = (_author(one), *map(_paper, written))
    kind = int(rng.integers(5))
    calls: tuple[Call, ...]
    if kind == 0:
        request = f"How many co-authors do {one} and {two} have in common?"
        calls = (Call("list_coauthors", {"name": one}), Call("list_coauthors", {"name": two}))
        shared = {*coauthors(tables, one)} & {*coauthors(tables, two)}
        answer = str(len(shared))
    elif kind == 1:
        request = f"Which paper of {one} has the most citations?"
        calls, answer = looked, max(written, key=lambda title: papers[title]["citations"])
    elif kind == 2:
        request = f"How many citations do the papers of {one} have in all?"
        calls, answer = looked, str(sum(papers[title]["citations"] for title in written))
    elif kind == 3:
        counts = Counter(papers[title]["venue"] for title in written)
        most = max(counts.values())
        request = f"In which venues did {one} publish most often? List all with the largest number."
        calls, answer = looked, "; ".join(v for v, n in counts.items() if n == most)
    else:
        title = written[int(rng.integers(len(written)))]
        others = papers[title]["authors"]
        request = f"At which institution does the first author of {title!r} work?"
        calls = (_paper(title), _author(others[0]))
        answer = authors[others[0]]["institution"]
    return Assignment(request, {"index": name}, calls, answer)


def coauthors(tables: dict[str, dict[str, Any]], name: str) -> list[str]:
    """Returns the authors who wrote a paper together with an author."""
    groups = (tables["papers"][title]["authors"] for title in tables["authors"][name]["papers"])
    return sorted({author for group in groups for author in group} - {name})


def _author(name: str) -> Call:
    return Call("get_author", {"name": name})


def _paper(title: str) -> Call:
    return Call("get_paper", {"title": title})


class Academia(AssignmentEnv):
    """Answer questions about papers and their authors.

    ## Description
    A question is about common co-authors, citations, venues or institutions. The agent looks up
    authors and papers, and counts or compares.

    ## Action Space
    Text: a tool call, such as `{"name": "get_author", "arguments": {"name": "Chen Diaz"}}`, in any
    of the formats of `agentgym.tools.CallFormat`. `finish` ends the episode.

    ## Observation Space
    Text: first the question, then the result of the last call.

    ## Rewards
    1 (term `task`) at `finish` if the answer is right, else 0. Entries of a list may have any
    order. An invalid action costs `invalid_penalty`.

    ## Starting State
    The question is sampled from the task name. 8 generated indices with 40 papers and 20 authors
    belong to the training tasks, and 8 others to the test tasks.

    ## Episode End
    Termination: `finish`. Truncation: after `max_turns` turns.

    ## Information
    The common keys. `progress` is the fraction of the solution's calls that were made. `admissible`
    is empty. `state_key` identifies the state, and the calls and results whatever their order.

    ## Arguments
    - `call_format` (str, default "json"): format of calls in the instructions and in the expert's
      actions: "json", "tool_call" (Qwen, Hermes), "llama_call" or "python".
    - `max_turns` (int or None, default 20): turn limit.

    ## References
    The academia tasks of the AgentGym framework of Xi et al. (arXiv 2406.04151), which come from
    AgentBoard (arXiv 2401.13178) and use a citation network. Papers, authors and questions are
    generated.

    ## Version History
    v0: first version.
    """

    rules = (
        "Answer a question about papers and authors. Look it up with the tools, then call finish "
        "with the answer: a number, a name, or a list separated by ';'. The reward is 1 if it is "
        "right, else 0."
    )

    def assignment(self, task: str) -> Assignment:
        """Returns a task."""
        return draw_assignment(task)

    def _entry(self, table: str, key: str) -> dict[str, Any]:
        entry = index(self.state.world["index"])[table].get(key)
        if entry is None:
            raise ToolError(f"There is no {key[:60]!r} among the {table}.")
        return entry

    @tool
    def list_authors(self) -> list[str]:
        """Lists the authors."""
        return list(index(self.state.world["index"])["authors"])

    @tool
    def get_author(self, name: str) -> dict[str, Any]:
        """Shows the institution and the papers of an author.

        Args:
            name: the whole name.
        """
        return self._entry("authors", name)

    @tool
    def list_coauthors(self, name: str) -> list[str]:
        """Lists the co-authors of an author.

        Args:
            name: the whole name.
        """
        self._entry("authors", name)
        return coauthors(index(self.state.world["index"]), name)

    @tool
    def get_paper(self, title: str) -> dict[str, Any]:
        """Shows authors, year, venue and citations of a paper.

        Args:
            title: the whole title.
        """
        return self._entry("papers", title)
