"""SQL: the sandbox refuses and stops, results are multisets, questions have one right answer."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.database.change_forms import CHANGES
from agentgym.envs.database.grammar import Grammar
from agentgym.envs.database.query_forms import FORMS
from agentgym.envs.database.questions import draw_question, world_of
from agentgym.envs.database.sandbox import MAX_ROWS, Connection, Refused, as_multiset, expansions
from agentgym.envs.database.sql import SQL
from agentgym.envs.database.world import HIDDEN, World, world
from agentgym.errors import SnapshotError

WORLD = world("train/0")
GROUP = WORLD.names[0]
NUMBERS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) "


def opened(*, writes: bool = False) -> Connection:
    return Connection(WORLD.contents[0], WORLD.names, writes=writes)


def played(env: SQL, *actions: str):
    """Returns the last step of an episode of the given actions, or else of the expert."""
    env.reset(seed=0, options={"task": "test/3"})
    result = None
    for action in actions:
        result = env.step(action)
    while result is None or not result[2]:
        action = env.expert()
        assert action is not None
        result = env.step(action)
    return result


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ATTACH ':memory:' AS x", "permitted"),
        ("VACUUM INTO '/tmp/agentgym.db'", "auth"),
        ("PRAGMA user_version", "permitted"),
        ("SELECT * FROM pragma_table_info('x')", "permitted"),
        ("SELECT COUNT(*) FROM pragma_database_list", "permitted"),
        ("SELECT load_extension('x')", "permitted"),
        ("SELECT readfile('/etc/passwd')", "no such function"),
        ("SELECT random()", "permitted"),
        ("SELECT date('now')", "permitted"),
        ("SELECT current_timestamp", "permitted"),
        ("SELECT zeroblob(1000000000)", "permitted"),
        ("CREATE TABLE x (a)", "permitted"),
        (f"DROP TABLE {GROUP}", "permitted"),
        ("DELETE FROM sqlite_master", "may not be modified"),
        ("BEGIN", "permitted"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT '\0'", "null character"),
        ("SELECT '\ud800'", "surrogates"),
        ("SELECT abs(-9223372036854775808)", "overflow"),
        ("SELECT 1" + "+1" * 1000, "too large"),
        ("SELECT replace(printf('%0900d', 1), '0', '00')", "too large"),
        (f"{NUMBERS} SELECT COUNT(*) FROM r", "too long"),
        (f"{NUMBERS} SELECT group_concat(x) FROM r", "too long"),
        (f"{NUMBERS} SELECT printf('%0900d', x) FROM r ORDER BY 1", "too long"),
        (f"SELECT COUNT(*) FROM {', '.join(f'{GROUP} t{i}' for i in range(12))}", "too long"),
    ],
)
@pytest.mark.parametrize("writes", [False, True])
def test_a_statement_is_refused(statement: str, reason: str, writes: bool):
    database = opened(writes=writes)
    with pytest.raises(Refused, match=reason):
        database.execute(statement)
    assert database.execute("SELECT 1")[1] == [(1,)], "the connection is still usable"
    assert not Path("/tmp/agentgym.db").exists()


def test_a_chain_of_table_expressions_is_refused_before_sqlite_expands_it():
    for name in ("a", '"a', "'a", "[a", "`a"):
        end = {"[": "]", "a": ""}.get(name[0], name[0])
        chain = ", ".join(
            f"{name}{i}{end} AS /* x */ (SELECT 1 FROM {name}{i - 1}{end}, {name}{i - 1}{end})"
            for i in range(1, 40)
        )
        with pytest.raises(Refused, match="refer to each other"):
            opened().execute(f"WITH {name}0{end} AS (SELECT 1), {chain} SELECT * FROM a39")
    plain = "WITH a(x, y) AS (SELECT 1, 2), b AS (SELECT a.x FROM a) SELECT b.x FROM b JOIN b c"
    assert expansions(plain) == 2
    assert opened().execute(f"{plain}")[1] == [(1,)]


def test_changes_need_permission_and_fill_two_megabytes_at_most():
    change = f"DELETE FROM {GROUP}"
    with pytest.raises(Refused, match="only SELECT on"):
        opened().execute(change)
    database = opened(writes=True)
    schema = WORLD.schema.group
    fill = f"INSERT INTO {GROUP} ({schema.label}) {NUMBERS} SELECT printf('%.900c', 'a') FROM r"
    for _ in range(3):
        database.execute(f"{fill} LIMIT 500")
    before = database.execute(f"SELECT COUNT(*) FROM {GROUP}")
    with pytest.raises(Refused, match="full"):
        database.execute(f"{fill} LIMIT 4000")
    assert database.execute(f"SELECT COUNT(*) FROM {GROUP}") == before
    assert len(database.execute(f"{NUMBERS} SELECT x FROM r LIMIT 5000")[1]) == MAX_ROWS
    database.execute(change)
    assert database.tables()[0] == []


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.none() | st.integers(-9, 9), st.sampled_from(["a", "b"]))))
def test_results_are_compared_as_multisets(rows: list[tuple[object, ...]]):
    floats = [(x if x is None else float(x), y) for x, y in rows]  # type: ignore[arg-type]
    assert as_multiset(rows) == as_multiset(floats[::-1])
    assert as_multiset(rows) != as_multiset([*rows, (1, "a")])
    assert as_multiset([("1",)]) != as_multiset([(1,)]) and as_multiset([(None,)]) != [("None",)]


def test_worlds_have_the_traps():
    empty = nulls = repeated = 0
    for number in range(8):
        found = World(f"train/{number}")
        database = Connection(found.contents[0], found.names)
        schema = found.schema
        group, item, key = schema.group, schema.item, schema.item_group

        def one(query: str, database: Connection = database) -> int:
            value = database.execute(f"SELECT COUNT(*) FROM {query}")[1][0][0]
            assert isinstance(value, int)
            return value

        empty += one(
            f"{group.name} WHERE {group.key} NOT IN "
            f"(SELECT {key} FROM {item.name} WHERE {key} IS NOT NULL)"
        )
        nulls += one(f"{item.name} WHERE {key} IS NULL")
        repeated += one(f"(SELECT {item.label} FROM {item.name} GROUP BY 1 HAVING COUNT(*) > 1)")
        assert len(set(found.contents)) == 1 + HIDDEN
    assert empty >= 8 and nulls >= 8 and repeated >= 8
    assert World("train/1").contents == world("train/1").contents
    assert World("test/1").contents != world("train/1").contents


@pytest.mark.parametrize("form", [form for forms in FORMS.values() for form in forms])
def test_every_form_gives_a_query_that_runs(form):
    for number in range(6):
        found = world(f"test/{number}")
        text, sql = form(Grammar(found.schema, random.Random(number)))
        Connection(found.contents[0], found.names).execute(sql)
        assert text[0].isupper() and text[-1] in ".?" and "  " not in text


@pytest.mark.parametrize("level", [*FORMS, "mixed"])
def test_answers_differ_between_the_hidden_databases(level: str):
    for number in range(20):
        task = f"test/{number}"
        question, found = draw_question(task, level, writes=False), world_of(task)
        results = [
            as_multiset(Connection(content, found.names).execute(question.sql)[1])
            for content in found.contents
        ]
        assert results[0] and any(result != results[1] for result in results[2:])
        assert question.tables and draw_question(task, level, writes=False) == question


def test_only_a_query_that_is_right_everywhere_is_rewarded():
    env = SQL()
    assert played(env)[1] == 1
    assert played(env, f"```sql\nanswer {env.question.sql};\n```")[1] == 1
    assert played(env, f"ANSWER: {env.question.sql} ")[4]["success"]
    wrong = played(env, "answer SELECT 'lucky'")
    assert wrong[1] == 0 and wrong[2] and wrong[4]["valid"] and "Wrong" in wrong[0]


def test_a_constant_copied_from_the_visible_result_is_wrong():
    env = SQL(level="easy")
    for number in range(20):
        env.reset(seed=0, options={"task": f"train/{number}"})
        rows = env.database.execute(env.question.sql)[1]
        values = ", ".join(
            f"({', '.join('NULL' if v is None else repr(v) for v in row)})" for row in rows
        )
        _, reward, terminated, _, info = env.step(f"answer VALUES {values}")
        assert reward == 0 and terminated and info["progress"] < 1


def test_a_failed_answer_is_feedback_and_no_end():
    env = SQL()
    env.reset(seed=0)
    for action in ("answer", "answer SELECT nothing", "answer DELETE FROM x", "done", "UPDATE x"):
        observation, reward, terminated, _, info = env.step(action)
        assert not terminated and not info["valid"] and reward == 0
        assert "Error" in observation or "Reply with" in observation
    assert env.step("SELECT 1 AS one")[0].startswith("one\n1\n(1 row)")


def test_an_answer_that_fails_on_hidden_rows_alone_is_wrong_and_tells_nothing():
    env = SQL()
    env.reset(seed=0, options={"task": "test/3"})
    table = world_of(env.task).schema.item
    names = f"(SELECT group_concat({table.label}) FROM {table.name})"
    ((seen,),) = env.database.execute(f"SELECT {names}")[1]
    case = f"CASE {names} WHEN '{seen}' THEN 1 ELSE abs(-9223372036854775808) END"
    assert env.step(f"SELECT {case} AS x")[0].startswith("x\n1")
    observation, reward, terminated, _, info = env.step(f"answer SELECT {case}")
    assert terminated and reward == 0 and info["valid"] and observation.startswith("Wrong.")


def test_texts_that_are_no_utf8_do_not_fail():
    env = SQL(writes=True)
    env.reset(seed=1)
    name = world_of(env.task).names[3]
    observation, _, _, _, info = env.step(
        f"DELETE FROM {name} RETURNING CAST(x'61ff' AS TEXT) AS c"
    )
    assert info["valid"] and observation.startswith("c\na\ufffd\n")
    other = SQL(writes=True)
    other.restore(json.loads(json.dumps(env.snapshot())))
    count = f"SELECT COUNT(*) AS n FROM {name}"
    assert other.step(count) == env.step(count)
    assert other.step(count)[0].startswith("n\n0")


def test_changes_are_compared_with_the_final_state():
    env = SQL(writes=True)
    assert played(env)[1] == 1
    assert played(env, "done")[1] == 0
    name = world_of("test/3").names[3]
    assert played(env, f"DELETE FROM {name}", "done")[1] == 0
    right = env.question.sql
    extra = played(env, right, f"INSERT INTO {name} DEFAULT VALUES", "done")
    assert extra[1] == 0 and extra[4]["progress"] == 0


@pytest.mark.parametrize("form", CHANGES)
def test_every_change_runs(form):
    for number in range(6):
        found = world(f"test/{number}")
        _, sql = form(Grammar(found.schema, random.Random(number)))
        Connection(found.contents[0], found.names, writes=True).execute(sql)


def test_a_snapshot_holds_the_changes_and_refuses_forbidden_ones():
    env, other = SQL(writes=True), SQL(writes=True)
    env.reset(seed=1)
    name = world_of(env.task).names[3]
    env.step(f"DELETE FROM {name}")
    saved = json.loads(json.dumps(env.snapshot()))
    other.restore(saved)
    count = f"SELECT COUNT(*) AS n FROM {name}"
    assert other.step(count) == env.step(count)
    assert other.step(count)[0].startswith("n\n0")
    saved["state"]["changes"] = ["ATTACH ':memory:' AS x"]
    with pytest.raises(SnapshotError):
        other.restore(saved)
    assert other.step("SELECT 1")[4]["valid"], "the episode goes on"


def test_arguments():
    with pytest.raises(ValueError, match="level must be one of"):
        SQL(level="impossible")
    assert "CREATE TABLE" in SQL(show_schema=True).reset(seed=0)[0]


@pytest.mark.parametrize(
    ("action", "valid"),
    [
        ("schema.", True),
        ("**schema**", True),
        ("SHOW TABLES;", True),
        ("describe paintings", True),
        ("DESC `paintings`;", True),
        ("Show columns from paintings", True),
        ("PRAGMA table_info('paintings');", True),
        (".schema paintings", True),
        ("I look at the tables first.\n```sql\nSHOW TABLES;\n```", True),
        ("SHOW TABLES; DESCRIBE paintings", False),
        ("describe what you want", False),
        ("explain select 1", False),
        ("Schema;", True),
        ("show the schema", False),
        ("schema and data", False),
    ],
)
def test_the_schema_may_have_marks_around_it(action: str, valid: bool):
    env = SQL()
    env.reset(seed=0)
    text, _, _, _, info = env.step(action)
    assert info["valid"] == valid == text.startswith("CREATE TABLE")


@pytest.mark.parametrize(("action", "ends"), [("Done.", True), ("done;", True), ("done?", False)])
def test_changes_are_submitted_by_one_word(action: str, ends: bool):
    env = SQL(writes=True)
    env.reset(seed=0)
    assert env.step(action)[2] == ends
