import dataclasses

import gymnasium
import pytest

from agentgym.agents import (
    ChatAgent,
    ExpertAgent,
    HumanAgent,
    NoExpertError,
    Quit,
    RandomAgent,
    View,
    make_agent,
)
from agentgym.agents.basic.human import readable
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import ExtractAction
from agentgym.wrappers.answer_format import FORMATS


class OpenLine(NumberLine):
    """NumberLine without admissible actions and without an expert."""

    def _look(self):
        return dataclasses.replace(super()._look(), admissible=())

    def expert(self):
        return None


def view(env: gymnasium.Env | None = None, task: str = "train/3", seed: int = 5) -> View:
    return View.start(env or NumberLine(), task, seed)


def test_a_view_starts_the_same_episode_as_reset():
    env = NumberLine()
    started = view(env)
    observation, info = NumberLine().reset(seed=5, options={"task": "train/3"})
    assert (started.observation, started.info) == (observation, info)
    assert started.instructions == env.instructions
    assert started.history == []


def test_a_views_generator_depends_on_task_and_seed_only():
    def draw(**kwargs):
        return view(**kwargs).rng.integers(2**60)

    assert draw() == draw(env=NumberLine(size=50))
    assert len({draw(), draw(task="train/4"), draw(seed=6)}) == 3


def test_random_is_uniform_over_the_admissible_actions():
    shown = view()
    shown.info["admissible"] = ("a", "b", "c", "d")
    actions = RandomAgent().act([shown] * 4000)
    for action in shown.info["admissible"]:
        assert 880 < actions.count(action) < 1120  # 1000 ± 4.4 standard deviations


def test_random_needs_admissible_actions_without_an_environment():
    [action] = RandomAgent().act([View.of_text("Play.", "x", info={"admissible": ("a",)})])
    assert action == "a"
    with pytest.raises(ConfigError, match="name another agent"):
        RandomAgent().act([View.of_text("Play.", "x")])
    [none] = RandomAgent().probabilities([View.of_text("Play.", "x")])
    assert len(none) == 0


def test_random_samples_the_action_space_where_the_set_is_open():
    first, second = (RandomAgent().act([view(OpenLine())] * 5) for _ in range(2))
    assert first == second
    assert len(set(first)) > 1
    assert all(isinstance(action, str) for action in first)


@pytest.mark.parametrize("name", FORMATS)
def test_random_writes_actions_in_the_answer_format(name: str):
    def played(env: gymnasium.Env) -> tuple[list[str], list[bool]]:
        shown, texts, valid = view(env), [], []
        for _ in range(5):
            [text] = RandomAgent().act([shown])
            _, _, over, _, info = env.step(text)
            texts.append(info.get("action", text))
            valid.append(info["valid"])
            if over:
                break
        return texts, valid

    found = played(ExtractAction(NumberLine(), name))
    assert found == played(NumberLine())
    assert all(found[1])


def test_the_expert_solves_the_task():
    env = NumberLine()
    playing = view(env)
    over, reward = False, 0.0
    while not over:
        [action] = ExpertAgent().act([playing])
        _, reward, over, _, _ = env.step(action)
    assert reward == 1


def test_no_expert_is_said():
    with pytest.raises(NoExpertError, match="OpenLine has no scripted expert"):
        ExpertAgent().act([view(OpenLine())])


def answers(monkeypatch, *lines: str) -> None:
    left = iter(lines)

    def ask(prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", ask)


def test_a_human_sees_what_there_is_to_see_and_says_anything(monkeypatch, capsys):
    answers(monkeypatch, "buy [red] shoes")
    assert HumanAgent().act([view()]) == ["buy [red] shoes"]
    shown = capsys.readouterr().out
    assert "number line" in shown
    assert view().observation in shown
    assert "Actions: 1 + | 2 -" in shown
    assert "Type help" in shown


def test_long_lists_of_actions_are_not_shown(monkeypatch, capsys):
    answers(monkeypatch, "x")
    shown = view()
    shown.info["admissible"] = tuple(f"go {i}" for i in range(500))
    HumanAgent().act([shown])
    shown = capsys.readouterr().out
    assert "go 1" not in shown
    assert "500 actions: /actions lists them" in shown


def test_a_number_chooses_a_listed_action(monkeypatch, capsys):
    answers(monkeypatch, "2", "0", "3")
    assert [HumanAgent().act([view()]) for _ in range(3)] == [["-"], ["0"], ["3"]]
    shown = view()
    shown.info["admissible"] = ("3", "2", "1")
    answers(monkeypatch, "1")
    assert HumanAgent().act([shown]) == ["1"]
    assert "Actions: 3 | 2 | 1" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["help", "?", "/help"])
def test_help_shows_the_rules_and_is_no_action(word, monkeypatch, capsys):
    answers(monkeypatch, word, "+")
    playing = view()
    assert HumanAgent(show_observation=False).act([playing]) == ["+"]
    shown = " ".join(capsys.readouterr().out.split())
    assert " ".join(playing.instructions.split()) in shown
    assert "/say TEXT" in shown


def test_commands_that_are_actions_are_played(monkeypatch):
    shown = view()
    shown.info["admissible"] = ("help", "?", "quit", "/say hello")
    answers(monkeypatch, "help", "?", "quit", "/say hello", "/say /quit", "/quit")
    said = [HumanAgent().act([shown]) for _ in range(5)]
    assert said == [["help"], ["?"], ["quit"], ["/say hello"], ["/quit"]]
    with pytest.raises(Quit):
        HumanAgent().act([shown])


def test_all_actions_are_listed_on_request(monkeypatch, capsys):
    shown = view()
    shown.info["admissible"] = tuple(f"go {i}" for i in range(1, 100))
    answers(monkeypatch, "/actions", "99")
    assert HumanAgent().act([shown]) == ["go 99"]
    assert "  99 go 99" in capsys.readouterr().out.splitlines()


def test_pages_of_webshop_are_shown_in_lines():
    page = "Instruction: [SEP] Find tea [SEP] Back to Search [SEP] Next >"
    shown = readable(page, ("click[back to search]", "click[next >]"))
    assert shown.splitlines() == ["  Instruction:", "  Find tea", "• Back to Search", "• Next >"]
    assert readable("no page") == "no page"


def test_quit_and_the_end_of_the_input_leave(monkeypatch):
    answers(monkeypatch, " quit ")
    with pytest.raises(Quit):
        HumanAgent().act([view()])
    with pytest.raises(Quit):
        HumanAgent().act([view()])


def test_quit_is_an_action_where_it_is_admissible(monkeypatch):
    answers(monkeypatch, "quit")
    shown = view()
    shown.info["admissible"] = ("quit", "stay")
    assert HumanAgent().act([shown]) == ["quit"]


def test_words_make_agents():
    for spec, kind in (("random", RandomAgent), ("expert", ExpertAgent), ("human", HumanAgent)):
        assert isinstance(make_agent(spec), kind)
    chat = make_agent("chat:@cf/llama@7b@http://localhost:80/a@v1", temperature=1, history=3)
    assert isinstance(chat, ChatAgent)
    assert chat.model == "@cf/llama@7b"
    assert chat.url == "http://localhost:80/a@v1/chat/completions"
    assert (chat.temperature, chat.history) == (1, 3)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("rundom", {}, "Did you mean: random"),
        ("random:3", {}, "Unknown agent"),
        (3, {}, r"'policy:FOLDER', for example; got 3 \(int\)"),
        ("policy:", {}, "Unknown agent"),
        ("chat:gpt", {}, "chat:MODEL@URL"),
        ("chat:gpt@localhost:80", {}, "chat:MODEL@URL"),
        ("chat:gpt@http://", {}, "chat:MODEL@URL"),
        ("chat:gpt@http://localhost:port/v1", {}, "base_url must be like"),
        ("chat:gpt@http://local host/v1", {}, "base_url must be like"),
        ("chat:gpt@http:///v1", {}, "base_url must be like"),
        ("chat:gpt@http://localhost", {"temprature": 1}, "Did you mean: temperature"),
        ("chat:gpt@http://localhost", {"temperature": "hot"}, "float or None; got 'hot'"),
        ("chat:gpt@http://localhost", {"history": -1}, "history must be"),
        ("chat:gpt@http://localhost", {"retries": -1}, "retries must be"),
        ("random", {"temperature": 1}, "it takes no arguments"),
    ],
)
def test_wrong_words_are_explained(spec, options, message):
    with pytest.raises(ConfigError, match=message):
        make_agent(spec, **options)
