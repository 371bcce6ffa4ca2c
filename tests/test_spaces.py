from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Dict, Space, Text, Tuple, flatdim, flatten, flatten_space, unflatten
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_differing_spaces, batch_space, create_shared_memory
from hypothesis import given
from hypothesis import strategies as st

import agentgym  # noqa: F401  # registers the ids
from agentgym import UnicodeText
from agentgym.spaces import _TextSlots
from agentgym.time_step import state_digest

from .helpers.echo import DictEcho, Echo

TEXTS = [
    "",
    "plain",
    "naïve 东西 🙂 e\u0301",
    "\0NUL\0 inside and at the end\0",
    "\ud800 lone surrogates \udfff",
    "line\r\nbreaks\u2028and\x1b[31mcontrol\x7f",
    "long " * 200_000,
    "short again",
]


def fork_or_spawn() -> list[str]:
    methods = multiprocessing.get_all_start_methods()
    return [method for method in ("fork", "spawn") if method in methods]


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_is_a_member(text: str):
    assert text in UnicodeText()
    assert UnicodeText(len(text)).contains(text)
    assert not text or not UnicodeText(len(text) - 1).contains(text)


@pytest.mark.parametrize("other", [b"bytes", 1, None, ["a"], np.array("a")])
def test_only_texts_are_members(other: Any):
    assert other not in UnicodeText()


def test_equality_hash_repr_and_pickle():
    assert UnicodeText() == UnicodeText(seed=3)
    assert UnicodeText() != UnicodeText(5)
    assert len({UnicodeText(), UnicodeText(), UnicodeText(5)}) == 2
    assert eval(repr(UnicodeText(5))) == UnicodeText(5)
    assert pickle.loads(pickle.dumps(UnicodeText(5))) == UnicodeText(5)


def test_samples_are_reproducible_members(global_rng_untouched: None):
    one, two = UnicodeText(20, seed=1), UnicodeText(20, seed=1)
    samples = [one.sample() for _ in range(50)]
    assert samples == [two.sample() for _ in range(50)]
    assert len(set(samples)) > 10
    assert all(sample in one for sample in samples)
    assert one.from_jsonable(one.to_jsonable(samples)) == samples


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="at least 0, got -1"):
        UnicodeText(-1)
    with pytest.raises(ValueError, match="neither a mask"):
        UnicodeText().sample(mask=0)  # type: ignore[arg-type]


def test_it_is_a_text_space_without_an_array_form():
    space = UnicodeText()
    assert isinstance(space, Text) and not space.is_np_flattenable
    for use in (flatdim, flatten_space, lambda s: flatten(s, "a"), lambda s: unflatten(s, [1])):
        with pytest.raises(ValueError, match=r"EncodeObservation|flatten"):
            use(space)


def test_batched_space_samples_as_stock_and_leaves_the_space_alone():
    space, stock = UnicodeText(seed=1), UnicodeText(seed=1)
    batch = batch_space(space, 3)
    assert isinstance(batch, Tuple)
    assert batch.sample() == batch_space.dispatch(Space)(stock, 3).sample()
    assert space.sample() == stock.sample()
    assert batch == pickle.loads(pickle.dumps(batch))


@pytest.mark.slow
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("method", fork_or_spawn())
def test_async_transports_every_text(method: str, copy: bool):
    envs = AsyncVectorEnv([Echo, Echo], context=method, copy=copy)
    observations, _ = envs.reset(seed=3)
    expected = [Echo().reset(seed=3)[0], Echo().reset(seed=4)[0]]
    assert list(observations) == expected
    for first, second in zip(TEXTS, TEXTS[::-1], strict=True):
        observations, rewards, *_, infos = envs.step((first, second))
        assert observations == (first, second)
        assert observations[1] == second
        assert observations[:1] == (first,)
        assert observations in envs.observation_space
        assert list(rewards) == [len(first), len(second)]
        assert list(infos["state_key"]) == [state_digest(first), state_digest(second)]
    envs.close()


def test_default_copies_keep_and_the_live_view_changes():
    for copy in (True, False):
        envs = AsyncVectorEnv([Echo], copy=copy)
        envs.reset(seed=0)
        before = envs.step(("one",))[0]
        envs.step(("two",))
        assert before == (("one",) if copy else ("two",))
        assert len(before) == 1
        assert repr(before) == repr(tuple(before))
        envs.close()


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("vector", [AsyncVectorEnv, SyncVectorEnv])
def test_texts_inside_dictionaries(vector: Any, copy: bool):
    envs = vector([DictEcho, DictEcho], copy=copy)
    assert isinstance(envs.observation_space, Dict)
    envs.reset(seed=0)
    for text in TEXTS:
        observations = envs.step((text, "x"))[0]
        assert observations["text"] == (text, "x")
        assert list(observations["length"]) == [len(text), 1]
        assert observations in envs.observation_space
    envs.close()


@pytest.mark.parametrize("vector", [AsyncVectorEnv, SyncVectorEnv])
@pytest.mark.parametrize("env", [Echo, DictEcho])
def test_spaces_of_one_vector_may_be_called_different(vector: Any, env: Any):
    envs = vector([env, env], observation_mode="different")
    envs.reset(seed=0)
    assert envs.step(("naïve 东西", "x"))[0] in envs.observation_space
    envs.close()
    spaces = batch_differing_spaces([UnicodeText(1), UnicodeText()])
    assert ("a", "long") in spaces and ("long", "a") not in spaces


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_async_equals_sync_over_episode_ends(mode: AutoresetMode, global_rng_untouched: None):
    makers = [partial(Echo, max_turns=3), partial(Echo, max_turns=2)]
    one = AsyncVectorEnv(makers, autoreset_mode=mode)
    two = SyncVectorEnv(makers, autoreset_mode=mode)
    assert one.reset(seed=7)[0] == two.reset(seed=7)[0]
    for i in range(9):
        actions = (f"{i} 東", "stop" if i % 4 == 0 else "\ud800")
        left, right = one.step(actions), two.step(actions)
        assert left[0] == right[0]
        for x, y in zip(left[1:4], right[1:4], strict=True):
            assert np.array_equal(x, y)
        assert left[4].keys() == right[4].keys()
        if "final_obs" in left[4]:
            assert list(left[4]["final_obs"]) == list(right[4]["final_obs"])
    one.close()
    two.close()


@pytest.mark.parametrize("method", [None, *fork_or_spawn()])
def test_make_vec_with_default_arguments(method: str | None, global_rng_untouched: None):
    envs = gymnasium.make_vec(
        "AgentGym/NumberLine-v0",
        2,
        vectorization_mode="async",
        vector_kwargs={"context": method} if method else None,
    )
    observations, _ = envs.reset(seed=5)
    for i in range(2):
        env = gymnasium.make("AgentGym/NumberLine-v0")
        assert env.reset(seed=5 + i)[0] == observations[i]
    envs.close()


def test_without_shared_memory_too():
    envs = AsyncVectorEnv([Echo], shared_memory=False)
    envs.reset(seed=0)
    assert envs.step((TEXTS[4],))[0] == (TEXTS[4],)
    envs.close()


def test_folder_and_files_go_with_the_vector_environment():
    slots = create_shared_memory(UnicodeText(), n=2)
    assert isinstance(slots, _TextSlots)
    slots.write(0, "text")
    assert slots.read(0) == "text"
    folder, files = slots.folder, slots._files
    assert sorted(os.listdir(folder)) == ["0", "1"]
    copy = pickle.loads(pickle.dumps(slots))
    assert copy.read(0) == "text"
    del copy
    gc.collect()
    assert folder.exists(), "a copy in a worker must not remove what the parent owns"
    del slots
    gc.collect()
    assert not folder.exists()
    assert not files


def test_no_file_is_left_open_at_exit(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(
        "import gymnasium, agentgym\n"
        "if __name__ == '__main__':\n"
        "    envs = gymnasium.make_vec('AgentGym/NumberLine-v0', 2, vectorization_mode='async')\n"
        "    envs.reset(seed=0)\n"
        "    print(envs.step(('+', '-'))[0])\n"
    )
    command = [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", str(script)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_checked_like_any_environment():
    check_env(Echo(max_turns=5), skip_render_check=True)
