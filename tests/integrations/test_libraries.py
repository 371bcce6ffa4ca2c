"""The code of docs/libraries.md runs if the corresponding library is installed."""

from __future__ import annotations

import importlib.util
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agentgym
from agentgym.errors import ConfigError
from agentgym.integrations.nemo_gym_rows import nemo_gym_rows
from agentgym.registration.making import make_env
from agentgym.wrappers import ExtractAction

PAGE = (Path(__file__).parents[2] / "docs" / "libraries.md").read_text(encoding="utf-8")
PACKAGES = {
    "Vector environments of Gymnasium": "agentgym",
    "Stable-Baselines3": "sb3_contrib",
    "TorchRL": "torchrl",
    "RLlib": "ray.rllib",
    "TRL": "trl",
    "A loop of your own": "agentgym",
}
MODEL = '"path/or/hub-id"'
MAKE_A_MODEL = """
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_chat_template

tokens = Tokenizer(models.BPE())
tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokens.decoder = decoders.ByteLevel()
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
alphabet = pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet)
tokens.train_from_iterator([], trainer)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokens, eos_token="<|im_end|>", pad_token="<|endoftext|>"
)
tokenizer.chat_template = qwen3_chat_template
size = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
config = Qwen3Config(vocab_size=len(tokenizer), num_key_value_heads=2, head_dim=16, **size)
Qwen3ForCausalLM(config).save_pretrained("model")
tokenizer.save_pretrained("model")
"""
QUICK = '"runs/trl", use_cpu=True, bf16=False, max_steps=2, per_device_train_batch_size=4, '
QUICK += "num_generations=4, report_to=[], "


def installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def snippets() -> list[Any]:
    found = []
    for section in PAGE.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        package = PACKAGES[title]
        missing = pytest.mark.skipif(not installed(package), reason=f"{package} is not installed")
        codes = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        assert codes, title
        found.append(pytest.param(codes, id=title, marks=missing))
    return found


EACH_ALONE = """
import os, sys
os.chdir(sys.argv[1])
for code in sys.argv[2:]:
    exec(code, {"__name__": "__main__"})
"""


@pytest.mark.slow
@pytest.mark.parametrize("codes", snippets())
def test_the_code_of_the_page_runs(codes: list[str], tmp_path: Path):
    from ..helpers.launch import Child, finish

    for i, code in enumerate(codes):
        if MODEL in code:
            code = code.replace(MODEL, '"model"').replace('"runs/trl", ', QUICK)
            code = code.replace("max_completion_length=512", "max_completion_length=16")
            codes[i] = MAKE_A_MODEL + code
    finish([Child(["-c", EACH_ALONE, str(tmp_path), *codes], {"CUDA_VISIBLE_DEVICES": ""})])


def test_a_tool_environment_plays_an_episode():
    env = agentgym.ToolEnvironment("NumberLine-v0", size=5)
    assert env.act("+") == "The episode is over. Actions have no effect."
    text = env.reset(task="train/3", seed=0, prompt=[], other=1)
    at, target = map(int, re.findall(r"\d+", text))
    for _ in range(abs(target - at)):
        assert env.get_reward() == 0
        text = env.act("+" if target > at else "-")
    assert text.endswith("Done!\n\nThe episode is over.") and env.get_reward() == 1
    assert env.act("+").startswith("The episode is over.") and env.get_reward() == 1
    assert env.reset(task="train/3", seed=0) and env.get_reward() == 0


def test_a_factory_can_be_sent_to_other_processes():
    factory = pickle.loads(pickle.dumps(partial(agentgym.ToolEnvironment, "NumberLine-v0", size=5)))
    assert factory().reset(task="train/3", seed=0).startswith("You are at")


@pytest.mark.parametrize("action", [None, True, ["5"], {"cell": 5}, b"5", float("nan")])
def test_an_action_that_is_no_text_is_an_invalid_one(action: Any):
    env = agentgym.ToolEnvironment("TicTacToe-v0", seat="player_0", invalid_penalty=0.25)
    env.reset(seed=0)
    assert env.act(action) and env.get_reward() == -0.25


def test_a_number_is_an_action_where_its_text_is_one():
    env = agentgym.ToolEnvironment("TicTacToe-v0", seat="player_0", invalid_penalty=0.25)
    env.reset(seed=0)
    env.act(5)  # pyright: ignore[reportArgumentType]  # as models do
    assert env.get_reward() == 0


def test_one_seat_of_a_game_is_a_tool_environment_too():
    env = agentgym.ToolEnvironment("AgentGym/TicTacToe-v0", seat="player_0", opponents="optimal")
    env.reset(seed=0)
    said = [env.act(cell) for cell in "123456789" * 2]  # taken cells are rejected
    assert said[-1].startswith("The episode is over") and env.get_reward() <= 0


def test_an_environment_with_wrappers_is_a_tool_too():
    env = ExtractAction(gymnasium.make("AgentGym/NumberLine-v0", size=5), "tags")
    rows = agentgym.tool_rows(env, 2)
    assert "<action>" in rows[0]["prompt"][0]["content"]
    tool = agentgym.ToolEnvironment(env)
    assert tool.instructions == rows[0]["prompt"][0]["content"]
    tool.reset(**rows[1])
    assert tool.act("I think. <action>+</action>").startswith("You are at")
    with pytest.raises(ConfigError, match="Arguments need an id"):
        agentgym.ToolEnvironment(env, size=4)
    for other in (gymnasium.make("CartPole-v1"), 5):
        with pytest.raises(ConfigError, match="an environment with text actions, got"):
            agentgym.ToolEnvironment(other)  # pyright: ignore[reportArgumentType]


class Counted(gymnasium.Env[str, str]):
    """A plain Gymnasium environment with text actions."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012
    instructions = "Say a number."
    observation_space = action_space = gymnasium.spaces.Text(20)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return f"level {self.np_random.integers(10**6)}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "end", float(action), True, False, {}


def test_a_plain_text_environment_is_a_tool_with_tasks():
    id = "Counted-v0"
    gymnasium.register(id, lambda **_: Counted())
    try:
        made = [make_env(id), agentgym.ToolEnvironment(id)]
        rows = agentgym.tool_rows(id, 2)
    finally:
        del gymnasium.registry[id]
    assert rows == agentgym.tool_rows(Counted(), 2)
    assert rows[1]["prompt"][0]["content"] == Counted.instructions
    expected = made[0].reset(seed=1, options={"task": "train/1"})[0]
    for tool in (made[1], agentgym.ToolEnvironment(Counted())):
        assert tool.reset(**rows[1]) == expected
        tool.act("2")
        assert tool.get_reward() == 2 and tool.over


def test_an_id_may_have_wrappers():
    tool = agentgym.ToolEnvironment("NumberLine-v0", wrap=["ExtractAction:format=tags"])
    assert "<action>" in tool.instructions


def test_rows_name_instructions_and_tasks():
    with pytest.raises(ConfigError, match="count must be at least 1"):
        agentgym.tool_rows("NumberLine-v0", 0)
    rows = agentgym.tool_rows("NumberLine-v0", 5, split="test")
    assert [row["task"] for row in rows] == [f"test/{i}" for i in range(5)]
    assert [row["seed"] for row in rows] == list(range(5))
    system, user = rows[0]["prompt"]
    assert system["content"] == agentgym.ToolEnvironment("NumberLine-v0").instructions
    assert system["content"].startswith("You stand on a number line.") and user["content"] == ""
    system["content"] = "Play."
    assert rows[1]["prompt"][0]["content"] != "Play.", "rows share nothing"
    with pytest.raises(ConfigError, match="Unknown environment"):
        agentgym.ToolEnvironment("NumbrLine-v0")


@pytest.mark.parametrize("rows", [agentgym.tool_rows, nemo_gym_rows])
def test_rows_have_the_instructions_of_the_seat_that_is_played(rows: Any):
    env = agentgym.ToolEnvironment("Retail-TwoPlayer-v0")
    lengths = set()
    for row in rows("Retail-TwoPlayer-v0", 4):
        env.reset(task=row["task"], seed=row["seed"])
        prompt = row.get("prompt") or row["responses_create_params"]["input"]
        assert prompt[0]["content"] == env.instructions
        lengths.add(len(env.instructions))
    assert len(lengths) == 2
