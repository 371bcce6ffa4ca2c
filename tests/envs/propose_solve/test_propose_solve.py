"""Proposers and solvers: which tasks are verified, what is refused, and who earns what."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentgym
from agentgym import UnreadableAction
from agentgym.envs.propose_solve import programs
from agentgym.envs.propose_solve.expressions import Expressions
from agentgym.envs.propose_solve.programs import Programs
from agentgym.envs.propose_solve.propose_solve import ProposeSolve, learnability
from agentgym.errors import ConfigError
from agentgym.multiagent.rules import InvalidMove
from agentgym.tasks import is_test_level

DOUBLE = "def f(x):\n    return 2 * x"
KEPT = next(f"7 + {b}" for b in range(1, 20) if is_test_level(f"7 + {b}"))
FREE = next(f"7 * {b}" for b in range(3, 20) if not is_test_level(f"7 * {b}"))
"""A test task and a training task."""


def game(**kwargs) -> ProposeSolve:
    found = ProposeSolve(**{"solvers": 2, **kwargs})
    # Training episodes refuse a quarter of all programs, which are test tasks.
    programs = kwargs.get("domain") == "programs"
    found.reset(seed=0, task="test/0" if programs else "train/0")
    return found


def play(g: ProposeSolve, proposal: str, *answers: str) -> list[float]:
    """Plays an episode and returns the rewards of proposer and solvers."""
    g.play({"player_0": proposal})
    g.play(dict(zip(g.acting, answers, strict=True)))
    return [g.reward(agent) for agent in g.possible_agents]


@pytest.mark.parametrize(
    ("right", "reward"), [((0, 0), 0), ((1, 1), 0), ((1, 0), 0.5), ((1, 0, 0, 0), 0.75)]
)
def test_a_task_is_worth_most_if_few_solve_it_and_nothing_if_all_or_none_do(right, reward):
    assert learnability([bool(x) for x in right]) == reward


def test_rewards_of_an_episode():
    value = str(eval(FREE))
    assert play(game(), FREE, value, "-999") == [0.5, 1, 0]
    assert play(game(), FREE, value, f" {value}. ") == [0, 1, 1]
    assert play(game(), FREE, "?", "") == [0, 0, 0]


def test_a_proposal_is_verified_once(monkeypatch: pytest.MonkeyPatch):
    found: list[str] = []
    verify = Expressions.verify

    def count(self, kind, proposal, *, test):
        found.append(proposal)
        return verify(self, kind, proposal, test=test)

    monkeypatch.setattr(Expressions, "verify", count)
    g = game()
    g.play({"player_0": g.script("weak", "player_0", np.random.default_rng(0))})
    assert len(found) == 3 and g.state.problem is not None  # two examples and the proposal
    assert found[-1] == g.state.problem.proposal


def test_solvers_see_the_task_and_no_other_answer_before_the_end():
    g = game()
    assert "proposer writes" in g.seen("player_1").text
    g.play({"player_0": FREE})
    assert g.acting == ("player_1", "player_2")
    assert g.seen("player_1").text.startswith(f"{FREE} = ?")
    g.play({"player_1": "41", "player_2": "43"})
    assert g.seen("player_2").text == f"{FREE} = ?\nplayer_2: 43 (wrong)"
    assert "player_1: 41 (" in g.seen("player_0").text
    assert not g.acting and g.terminated("player_0")


@pytest.mark.parametrize(
    ("proposal", "why"),
    [
        ("3", "1 numbers"),
        ("1 + 2 + 3 + 4", "4 numbers"),
        ("21 + 1", "not allowed"),
        ("0 + 1", "not allowed"),
        ("2 ** 9", "not allowed"),
        ("__import__('os').getpid() + 1", "not allowed"),
        ("(1 +", "not an expression"),
        ("", "not an expression"),
        ("1 + 1\n2", "not an expression"),
        ("(" * 90 + "1" + ")" * 90, "at most 100"),
        (KEPT, "reserved for tests"),
    ],
)
def test_expressions_that_are_refused(proposal, why):
    g = game(invalid_penalty=0.5)
    g.play({"player_0": proposal})
    assert why in g.seen("player_0").feedback
    assert g.reward("player_0") == -0.5
    assert g.acting == ("player_0",)


def test_an_example_and_its_other_forms_are_refused():
    g = game()
    g.play({"player_0": f"({g.state.examples[0]})"})
    assert "one of the examples" in g.seen("player_0").feedback


def test_a_proposer_without_a_valid_task_gets_one_and_nothing_for_it():
    g = game(max_invalid=2)
    for _ in range(2):
        g.play({"player_0": "no task"})
    assert g.state.given and g.state.problem is not None
    g.play({"player_1": g.state.problem.solution, "player_2": "x"})
    assert [g.reward(agent) for agent in g.possible_agents] == [0, 1, 0]


def test_a_solver_without_a_readable_answer_earns_the_proposer_nothing_for_a_given_task():
    for seed in range(5):
        g = game(max_invalid=1)
        g.reset(seed=seed, task="train/0")
        g.play({"player_0": "no task"})
        assert g.state.problem is not None
        g.play({"player_1": g.state.problem.solution, "player_2": UnreadableAction("?")})
        assert g.state.right[0] and g.state.given
        assert g.reward("player_0") == 0


@pytest.mark.parametrize("domain", ["expressions", "programs"])
def test_test_episodes_have_reserved_tasks_and_training_episodes_have_none(domain: str):
    for split in ("train", "test"):
        for number in range(20):
            g = game(domain=domain)
            g.reset(seed=0, task=f"{split}/{number}")
            drawn = [*g.state.examples, g.script("expert", "player_0", np.random.default_rng(1))]
            assert {is_test_level(text) for text in drawn} == {split == "test"}


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="0123456789+-*() x_", max_size=30))
def test_an_expression_is_refused_or_has_its_value(text):
    try:
        problem = Expressions(4, 30).verify("value", text, test=True)
    except InvalidMove:
        return
    assert eval(text) == int(problem.solution)
    assert eval(problem.proposal) == int(problem.solution)


def test_levels_of_solvers():
    g = game(solvers=8)
    g.play({"player_0": FREE})
    rights, problem = {}, g.state.problem
    assert problem is not None
    for level in g.levels:
        said = [g.script(level, "player_1", np.random.default_rng(i)) for i in range(100)]
        rights[level] = np.mean([g.domain.right("value", problem, each) for each in said])
    assert rights["expert"] == 1 and 0.35 < rights["weak"] < 0.65 and rights["random"] < 0.2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"domain": "program"}, "Did you mean"),
        ({"kind": "deduction"}, "any or one of value"),
        ({"solvers": 1}, "from 2 to 16"),
        ({"examples": 11}, "from 0 to 10"),
        ({"num_players": 3, "solvers": 4}, "solvers \\+ 1"),
        ({"terms": 1}, "terms"),
    ],
)
def test_wrong_arguments(arguments, error):
    with pytest.raises(ConfigError, match=error):
        ProposeSolve(**arguments)


# Programs.


def deduction(**kwargs) -> ProposeSolve:
    pytest.importorskip("pydantic_monty")
    return game(domain="programs", **{"kind": "deduction", **kwargs})


def test_deduction():
    assert play(deduction(), f"{DOUBLE}\ninput: 4", "8", "9") == [0.5, 1, 0]
    fenced = f"```python\n{DOUBLE}\n```"
    with pytest.raises(InvalidMove):
        Programs().verify("deduction", fenced, test=False)
    fenced = f"```python\n{DOUBLE}\ninput: 'ab'\n```"
    assert play(deduction(), fenced, "'abab'", "abab") == [0.5, 1, 0]


def test_a_program_is_found_in_prose():
    doubled = f"Doubling is `x + x`:\n```python\nx + x\n```\nSo:\n```python\n{DOUBLE}\n```"
    assert play(deduction(), f"{doubled}\ninput: 4", "8", "9") == [0.5, 1, 0]
    inputs = "\n".join(f"input: {x}" for x in (1, 2, 3, -1, -2, -3))
    fenced = f"```python\n{DOUBLE}\n{inputs}\n```\nThe first one:\ninput: 1"
    assert play(deduction(kind="induction"), fenced, doubled, "f = 2") == [0.5, 1, 0]


@pytest.mark.parametrize("result", ["x > 1", "None", "[x, {'a': False}]", "'\\u00e9' * x"])
def test_the_expert_writes_outputs_as_python_literals(result):
    g = deduction()
    g.play({"player_0": f"def f(x):\n    return {result}\ninput: 2"})
    assert g.state.problem is not None
    assert g.domain.right("deduction", g.state.problem, g.state.problem.solution)


def test_questions_show_outputs_as_python_literals():
    proposal = "def f(x):\n    return x > 1\ninput: 2"
    assert "output True?" in Programs().verify("abduction", proposal, test=False).question
    proposal = "def f(x):\n    return x > 1\n" + "\n".join(f"input: {x}" for x in range(6))
    assert "output: False" in Programs().verify("induction", proposal, test=False).question


def test_abduction_accepts_any_input_with_the_output():
    g = deduction(kind="abduction")
    assert play(g, "def f(x):\n    return x * x\ninput: 3", "-3", "4") == [0.5, 1, 0]
    assert g.state.problem is not None
    assert "input: 3" not in g.state.problem.question


def test_induction_needs_the_outputs_of_hidden_inputs():
    inputs = "\n".join(f"input: {x}" for x in (1, 2, 3, -1, -2, -3))
    g = deduction(kind="induction")
    memory = "def f(x):\n    return {1: 2, 2: 4, 3: 6}.get(x, 0)"
    assert play(g, f"{DOUBLE}\n{inputs}", "def f(y):\n    return y + y", memory) == [0.5, 1, 0]
    assert g.state.problem is not None
    assert "input: 3 output: 6" in g.state.problem.question
    assert "input: -1" not in g.state.problem.question


@pytest.mark.parametrize(
    ("proposal", "why"),
    [
        ("input: 3", "Write a function f"),
        (DOUBLE, "Write 1 line"),
        (f"{DOUBLE}\ninput: 1\ninput: 2", "Write 1 line"),
        (f"{DOUBLE}\ninput: open('x')", "not an input"),
        (f"{DOUBLE}\ninput: {{1, 2}}", "not an input"),
        (f"{DOUBLE}\ninput: {'[' * 200}", "not an input"),
        ("def f(x):\n    return 1 // x\ninput: 0", "ZeroDivisionError"),
        ("def f(x:\ninput: 1", "refused"),
        ("def f(x):\n    while True: pass\ninput: 1", "refused"),
        ("def f(x):\n    return 'a' * 10000\ninput: 1", "more than 300"),
        ("def f(x):\n    return 1e308 * x\ninput: 10", "inf is no Python literal"),
        ("def f(x):\n    return open('/etc/passwd').read()\ninput: 1", "refused"),
        ("def f(x):\n    import os\n    return os.listdir('/')\ninput: 1", "refused"),
        (f"_result(7)\n{DOUBLE}\ninput: 1", "not available"),
        (f"{'#' * 2100}\n{DOUBLE}\ninput: 1", "at most 2000"),
    ],
)
def test_programs_that_are_refused(proposal, why):
    g = deduction()
    g.play({"player_0": proposal})
    assert why in g.seen("player_0").feedback


@pytest.mark.parametrize("name", ["random.random()", "time.time()", "datetime.datetime.now()"])
def test_programs_are_deterministic(name):
    pytest.importorskip("pydantic_monty")
    program = f"def f(x):\n    import {name.partition('.')[0]}\n    return str({name})"
    assert programs.results(program, [[1]]) == programs.results(program, [[1]])


@pytest.mark.parametrize(
    "attack",
    [
        "exec('_res' + 'ult = lambda *a: None'); exec('_res' + 'ult(99)')",
        "globals()['_res' + 'ult'](99)",
        "[globals()[n](99) for n in list(globals()) if n.startswith('_res')]",
        "[eval(n)(99) for n in dir() if n.startswith('_res')]",
    ],
)
def test_results_cannot_be_forged(attack):
    pytest.importorskip("pydantic_monty")
    for program in (
        f"{attack}\ndef f(x): return x + 1",
        f"def f(x):\n    {attack}\n    return x + 1",
    ):
        try:
            found = programs.results(program, [[1]])
        except programs.Refused:
            continue
        assert found == ["2"]


def test_programs_run_in_the_sandbox_only(monkeypatch, tmp_path):
    """Nothing of a proposal or an answer reaches an interpreter of this process."""
    g = deduction(kind="abduction")
    ran = []
    run_calls = programs.run_calls

    def recorded(before, code, functions, **kwargs):
        ran.append(code)
        return run_calls(before, code, functions, **kwargs)

    monkeypatch.setattr(programs, "run_calls", recorded)
    for name in ("exec", "eval"):
        monkeypatch.setattr(f"builtins.{name}", lambda *_: pytest.fail("it ran outside"))
    target = tmp_path / "file"
    evil = f"__import__('pathlib').Path({str(target)!r}).touch()"
    rewards = play(g, f"{DOUBLE}\ninput: 4", "4", evil)
    assert rewards == [0.5, 1, 0] and not target.exists()
    assert ran and all(DOUBLE in code and "pathlib" not in code for code in ran)


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=40))
def test_any_answer_is_judged(answer):
    pytest.importorskip("pydantic_monty")
    for kind in Programs.kinds:
        inputs = "\n".join(f"input: {x}" for x in range(programs.PAIRS if kind[0] == "i" else 1))
        problem = Programs().verify(kind, f"{DOUBLE}\n{inputs}", test=False)
        assert Programs().right(kind, problem, problem.solution)
        assert isinstance(Programs().right(kind, problem, answer), bool)


def test_an_episode_about_programs_survives_a_snapshot():
    env = agentgym.make_aec("AgentGym/ProposeSolve-Programs-v0").unwrapped
    pytest.importorskip("pydantic_monty")
    for seed in range(6):
        env.reset(seed=seed)
        g = env.game
        assert g.role("player_0").endswith("-proposer")
        assert g.role("player_1") in g.possible_roles("player_1")
        g.play({"player_0": g.script("expert", "player_0", np.random.default_rng(seed))})
        saved = json.loads(json.dumps(g.snapshot()))
        problem = g.state.problem
        assert problem is not None
        g.play({agent: g.expert(agent) or "" for agent in g.acting})
        assert all(g.seen(agent).success for agent in g.possible_agents[1:])
        g.restore(saved)
        assert g.state.problem == problem and len(g.acting) == 4


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 10), st.sampled_from([2, 20, 10**9]), st.integers(0, 10**6))
def test_every_expression_that_is_drawn_may_be_proposed(terms: int, largest: int, number: int):
    domain, rng = Expressions(terms, largest), np.random.default_rng(number)
    drawn = domain.sample(f"train/{number}", "", lambda below: int(rng.integers(below)))
    assert domain.verify("", drawn, test=False).proposal == drawn


@pytest.mark.parametrize(
    "form", ["{}", "Task: {}", "{} = ?", "**{}**", "\\boxed{{{}}}", "{}.", "Expression: `{}`"]
)
def test_a_proposed_expression_may_have_marks(form: str):
    domain = Expressions(3, 20)
    assert (
        domain.verify("value", form.format("3 \u00d7 (4 + 5)"), test=True).proposal == "3 * (4 + 5)"
    )
    for text in ("3 + 4 = 7", "3 + 4 or 5", "compute 3 + 4"):
        with pytest.raises(InvalidMove):
            domain.verify("value", form.format(text), test=True)
