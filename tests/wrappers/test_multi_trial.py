from __future__ import annotations

import pytest
from gymnasium.wrappers import TransformObservation

from agentgym import UnicodeText
from agentgym.envs.bandit.bandit import Bandit
from agentgym.envs.numbers.number_line import NumberLine
from agentgym.errors import ConfigError
from agentgym.wrappers import (
    AskExpert,
    CodeAction,
    ExtractAction,
    HistoryObservation,
    Memory,
    Monologue,
    MultiTrial,
    TokenAction,
)

from ..helpers.echo import DictEcho, Echo
from ..helpers.tokenizers import LATIN

STOP = LATIN.encode("stop", add_special_tokens=False)


def test_attempts_start_alike_and_show_what_came_before():
    env = MultiTrial(Echo(max_turns=2), 3)
    start, info = env.reset(seed=5)
    task = info["task"]
    assert (info["trial"], info["trial_end"]) == (0, False)
    env.step("aa")
    observation, reward, terminated, truncated, info = env.step("b")
    assert (reward, terminated, truncated) == (1.0, False, False)
    assert observation == (
        f"Attempt 1 failed after 2 turns with a return of 3.\nThis is attempt 2 of 3.\n\n{start}"
    )
    assert (info["trial"], info["trial_end"], info["trial_success"]) == (1, True, False)
    assert (info["task"], info["turn"], info["reward_terms"]["task"]) == (task, 0, 1.0)
    assert env.step("c")[0].endswith("\n\nc")
    env.step("d")
    env.step("e")
    observation, _, terminated, truncated, info = env.step("f")
    assert (terminated, truncated, info["trial"], info["trial_end"]) == (False, True, 2, True)
    assert observation.count("failed") == 2


def test_a_success_ends_the_episode_unless_told_otherwise():
    env = MultiTrial(Echo(), 2)
    env.reset(seed=0)
    assert env.step("stop")[2]
    env = MultiTrial(Echo(), 2, stop_on_success=False)
    env.reset(seed=0)
    observation, _, terminated, _, info = env.step("stop")
    assert observation.startswith("Attempt 1 succeeded after 1 turns with a return of 4.\n")
    assert (terminated, info["trial_success"], info["success"]) == (False, True, False)
    assert env.step("stop")[2]


def test_transcripts_are_shown_if_wanted():
    env = MultiTrial(Echo(max_turns=2), 2, transcripts=True)
    start, _ = env.reset(seed=0)
    env.step("a")
    assert env.step("b")[0] == (
        "Attempt 1 failed after 2 turns with a return of 2.\n\n"
        f"{start}\n\n> a\n\na\n\n> b\n\nb\n\nThis is attempt 2 of 2.\n\n{start}"
    )


def test_a_history_inside_is_that_of_the_attempt():
    env = MultiTrial(HistoryObservation(Echo(max_turns=2)), 2)
    start, _ = env.reset(seed=0)
    env.step("a")
    env.step("b")
    assert env.step("c")[0].endswith(f"This is attempt 2 of 2.\n\n{start}\n\n> c\n\nc")


def test_the_first_attempt_is_the_plain_episode_and_seedless_resets_differ():
    env = MultiTrial(NumberLine(max_turns=1), 2)
    assert env.reset(seed=3)[0] == NumberLine(max_turns=1).reset(seed=3)[0]
    tasks = []
    for _ in range(5):
        tasks.append(env.reset()[1]["task"])
        assert env.step("?")[4]["task"] == tasks[-1]
    assert len(set(tasks)) == 5


def test_the_given_task_is_attempted_again():
    env = MultiTrial(NumberLine(max_turns=1), 2)
    assert env.reset(seed=3, options={"task": "test/7"})[1]["task"] == "test/7"
    assert env.step("?")[4]["task"] == "test/7"


def test_wrong_arguments_are_refused():
    with pytest.raises(ConfigError, match="n must be at least 1, got 0"):
        MultiTrial(Echo(), 0)


def test_an_environment_of_others_is_told_what_it_lacks():
    texts = TransformObservation(DictEcho(), lambda shown: shown["text"], UnicodeText())
    env = MultiTrial(texts, 2)
    with pytest.raises(ConfigError, match=r"info holds \['task', .*'reward_terms'\]"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("wrapper", "played", "idle"),
    [
        (Memory, ["Action: stop"], "remember: a note"),
        (Monologue, ["a thought", "Action: stop"], "a thought"),
        (AskExpert, ["Action: stop"], "ask"),
        (CodeAction, ["Action: stop"], "```python\nprint(1)\n```"),
        (lambda env: TokenAction(env, LATIN), [*STOP, LATIN.eos_token_id], STOP[0]),
    ],
)
def test_an_action_without_a_turn_repeats_no_end_of_an_attempt(wrapper, played, idle):
    trials = MultiTrial(Echo(invalid_penalty=1.0), 3, stop_on_success=False)
    env = wrapper(trials if isinstance(idle, int) else ExtractAction(trials))
    env.reset(seed=0)
    *_, info = [env.step(action)[-1] for action in played]
    assert (info["trial"], info["trial_end"], info["trial_success"]) == (1, True, True)
    assert info["trial_observation"] == "stop"
    again = env.step(idle)[-1]
    assert again.keys() == info.keys()
    assert (again["trial"], again["trial_end"], again["trial_success"]) == (1, False, False)
    assert (again["trial_observation"], again.get("action", "")) == ("", "")
    assert again["valid"] and not any(again["reward_terms"].values())


def test_fresh_attempts_have_chance_events_of_their_own():
    def payoffs(fresh: bool) -> list[list[float]]:
        env = MultiTrial(Bandit(rounds=8), 3, stop_on_success=False, fresh=fresh)
        env.reset(seed=4)
        action = env.reset(seed=4)[1]["admissible"][0]
        return [[float(env.step(action)[1]) for _ in range(8)] for _ in range(3)]

    assert len({tuple(each) for each in payoffs(False)}) == 1
    found = payoffs(True)
    assert len({tuple(each) for each in found}) > 1 and found == payoffs(True)
    assert found[0] == payoffs(False)[0]
