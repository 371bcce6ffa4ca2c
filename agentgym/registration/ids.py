"""The table of environment ids: a new id is added here.

An environment is one file and one line in `TABLE`. Tests, the catalogue and `agentgym list` are
generated from it. Entry points are strings, so that an environment is imported only when it is
made. `registry.py` registers the ids.
"""

from __future__ import annotations

from typing import TypedDict

from agentgym.registration.entry import Entry


class Needs(TypedDict):
    """The optional dependency of an environment: see `Entry`."""

    extra: str
    package: str


CHESS: Needs = {"extra": "chess", "package": "chess"}
MONTY: Needs = {"extra": "code", "package": "pydantic_monty"}
SANDLOCK: Needs = {"extra": "code", "package": "sandlock"}
MINIGRID: Needs = {"extra": "minigrid", "package": "minigrid"}
TEXTWORLD: Needs = {"extra": "textworld", "package": "textworld"}

FOOD = "agentgym.envs.virtualhome.food_preparation:FoodPreparation"

TABLE: tuple[Entry, ...] = (
    # Single agent.
    Entry("NumberLine-v0", "agentgym.envs.numbers.number_line:NumberLine"),
    Entry("Arithmetic-v0", "agentgym.envs.numbers.arithmetic:Arithmetic"),
    Entry("WebShop-v0", "agentgym.envs.webshop.env:WebShop"),
    Entry("WebShop-Large-v0", "agentgym.envs.webshop.env:WebShop", {"num_products": 100_000}),
    Entry("WebShop-Users-v0", "agentgym.envs.webshop.env:WebShop", {"users": 3}),
    Entry("Maze-v0", "agentgym.envs.lmrl.maze:Maze"),
    Entry("Maze-Partial-v0", "agentgym.envs.lmrl.maze:Maze", {"describe": "walls"}),
    Entry("Maze-Random-v0", "agentgym.envs.lmrl.maze:Maze", {"maze": "random"}),
    Entry("Wordle-v0", "agentgym.envs.lmrl.wordle:Wordle"),
    Entry(
        "Wordle-Fixed-v0",
        "agentgym.envs.lmrl.wordle:Wordle",
        {"fixed_secret": True, "letter_counts": True},
    ),
    Entry("TextNav-v0", "agentgym.envs.lmrl.text_nav:TextNav"),
    Entry(
        "TextNav-Partial-v0",
        "agentgym.envs.lmrl.text_nav:TextNav",
        {"location": False, "inventory": False},
    ),
    Entry("TextNav-Random-v0", "agentgym.envs.lmrl.text_nav:TextNav", {"layout": "generated"}),
    Entry("TwentyQuestions-v0", "agentgym.envs.lmrl.twenty_questions:TwentyQuestions"),
    Entry(
        "TwentyQuestions-Menu-v0",
        "agentgym.envs.lmrl.twenty_questions:TwentyQuestions",
        {"question_menu": True},
    ),
    Entry("GuessMyCity-v0", "agentgym.envs.lmrl.guess_my_city:GuessMyCity"),
    Entry(
        "GuessMyCity-Menu-v0",
        "agentgym.envs.lmrl.guess_my_city:GuessMyCity",
        {"open_questions": False, "question_menu": True},
    ),
    Entry("CarDealer-v0", "agentgym.envs.lmrl.car_dealer:CarDealer"),
    Entry("FrozenLake-v0", "agentgym.envs.grid.frozen_lake:FrozenLake"),
    Entry(
        "FrozenLake-Dry-v0",
        "agentgym.envs.grid.frozen_lake:FrozenLake",
        {"size": 6, "slippery": False},
    ),
    Entry("TowerOfHanoi-v0", "agentgym.envs.puzzle.tower_of_hanoi:TowerOfHanoi"),
    Entry("TowerOfHanoi-Six-v0", "agentgym.envs.puzzle.tower_of_hanoi:TowerOfHanoi", {"disks": 6}),
    Entry("Countdown-v0", "agentgym.envs.puzzle.countdown:Countdown"),
    Entry(
        "Countdown-Hard-v0",
        "agentgym.envs.puzzle.countdown:Countdown",
        {"numbers": 5, "operators": "+-*/"},
    ),
    Entry(
        "Countdown-Steps-v0",
        "agentgym.envs.puzzle.countdown:Countdown",
        {"operators": "+-*/", "steps": True},
    ),
    Entry("Minesweeper-v0", "agentgym.envs.puzzle.minesweeper:Minesweeper"),
    Entry(
        "Minesweeper-Guess-v0",
        "agentgym.envs.puzzle.minesweeper:Minesweeper",
        {"rows": 9, "columns": 9, "mines": 10, "solvable": False},
    ),
    Entry("BabaIsAI-v0", "agentgym.envs.baba.baba_is_ai:BabaIsAI"),
    Entry("BabaIsAI-Hard-v0", "agentgym.envs.baba.baba_is_ai:BabaIsAI", {"kind": "hard"}),
    Entry("Crafter-Text-v0", "agentgym.envs.crafter.crafter_text:CrafterText"),
    Entry("OpaqueKnapsack-v0", "agentgym.envs.puzzle.opaque_knapsack:OpaqueKnapsack"),
    Entry(
        "OpaqueKnapsack-Hard-v0",
        "agentgym.envs.puzzle.opaque_knapsack:OpaqueKnapsack",
        {"difficulty": "hard"},
    ),
    Entry("Blackjack-v0", "agentgym.envs.cards.blackjack:Blackjack"),
    Entry("Bandit-v0", "agentgym.envs.bandit.bandit:Bandit"),
    Entry(
        "Bandit-Hard-v0",
        "agentgym.envs.bandit.bandit:Bandit",
        {"arms": 10, "difficulty": "hard", "rounds": 300},
    ),
    Entry("ContextualBandit-v0", "agentgym.envs.bandit.contextual_bandit:ContextualBandit"),
    Entry(
        "ContextualBandit-Hard-v0",
        "agentgym.envs.bandit.contextual_bandit:ContextualBandit",
        {"difficulty": "hard", "rounds": 200, "noise": 0.1, "history": False},
    ),
    Entry(
        "ContextualBandit-Profile-v0",
        "agentgym.envs.bandit.contextual_bandit:ContextualBandit",
        {"rounds": 200, "taste": False},
    ),
    Entry("Sokoban-v0", "agentgym.envs.grid.sokoban:Sokoban"),
    Entry("Sokoban-Two-v0", "agentgym.envs.grid.sokoban:Sokoban", {"size": 8, "boxes": 2}),
    Entry("Overcooked-TomatoSalad-v0", "agentgym.envs.overcooked.salad:Salad"),
    Entry(
        "Overcooked-TomatoLettuceSalad-v0",
        "agentgym.envs.overcooked.salad:Salad",
        {"recipe": "lettuce-tomato salad"},
    ),
    Entry("AsyncKitchen-v0", "agentgym.envs.kitchen.async_kitchen:AsyncKitchen"),
    Entry(
        "AsyncKitchen-Orders-v0",
        "agentgym.envs.kitchen.async_kitchen:AsyncKitchen",
        {"orders": 4, "late": True},
    ),
    Entry("VirtualHome-FoodPreparation-v0", FOOD),
    Entry("VirtualHome-FoodPreparation-Cheese-v0", FOOD, {"variant": "cheese"}),
    Entry("VirtualHome-FoodPreparation-Hamburger-v0", FOOD, {"variant": "hamburger"}),
    Entry("VirtualHome-FoodPreparation-ApplePie-v0", FOOD, {"variant": "apple pie"}),
    Entry("VirtualHome-FoodPreparation-Pizza-v0", FOOD, {"variant": "pizza"}),
    Entry("VirtualHome-FoodPreparation-Plate-v0", FOOD, {"variant": "plate"}),
    Entry("VirtualHome-FoodPreparation-Laundry-v0", FOOD, {"variant": "laundry"}),
    Entry("VirtualHome-Entertainment-v0", "agentgym.envs.virtualhome.entertainment:Entertainment"),
    Entry("Household-v0", "agentgym.envs.household.household:Household"),
    Entry(
        "Household-Unseen-v0",
        "agentgym.envs.household.household:Household",
        {"test_homes": "unseen"},
    ),
    Entry("WatchAndHelp-v0", "agentgym.envs.household.watch_and_help:WatchAndHelp"),
    Entry("Blocksworld-v0", "agentgym.envs.planning.blocksworld:Blocksworld"),
    Entry(
        "Blocksworld-Mystery-v0",
        "agentgym.envs.planning.blocksworld:Blocksworld",
        {"mystery": True},
    ),
    Entry("Gripper-v0", "agentgym.envs.planning.gripper:Gripper"),
    Entry("Ferry-v0", "agentgym.envs.planning.ferry:Ferry"),
    Entry("Logistics-v0", "agentgym.envs.planning.logistics:Logistics"),
    Entry("Tyreworld-v0", "agentgym.envs.planning.tyreworld:Tyreworld"),
    Entry("TextCraft-v0", "agentgym.envs.textcraft.textcraft:TextCraft"),
    Entry("TextCraft-Deep-v0", "agentgym.envs.textcraft.textcraft:TextCraft", {"depth": 4}),
    Entry("TravelPlanner-v0", "agentgym.envs.travel.travel_planner:TravelPlanner"),
    Entry("Retail-v0", "agentgym.envs.service.retail:Retail"),
    Entry("Airline-v0", "agentgym.envs.service.airline:Airline"),
    Entry("Telecom-v0", "agentgym.envs.service.telecom:Telecom"),
    Entry("SQL-v0", "agentgym.envs.database.sql:SQL"),
    Entry("SQL-Hard-v0", "agentgym.envs.database.sql:SQL", {"level": "hard"}),
    Entry("SQL-Writes-v0", "agentgym.envs.database.sql:SQL", {"writes": True}),
    Entry("SearchQA-v0", "agentgym.envs.search.search_qa:SearchQA"),
    Entry(
        "SearchQA-Hard-v0",
        "agentgym.envs.search.search_qa:SearchQA",
        {"hops": 4, "misleading": 0.8, "drop": 0.2, "query_cost": 0.02},
    ),
    Entry(
        "SearchQA-Long-v0",
        "agentgym.envs.search.search_qa:SearchQA",
        {"hops": 3, "chains": 20, "max_turns": 120},
    ),
    Entry("KG-QA-v0", "agentgym.envs.search.kg_qa:KGQA"),
    Entry("Clinic-v0", "agentgym.envs.clinic.clinic:Clinic"),
    Entry(
        "Clinic-Hard-v0",
        "agentgym.envs.clinic.clinic:Clinic",
        {"diseases": 12, "symptoms": 14, "tests": 6},
    ),
    Entry("TheoryOfMind-v0", "agentgym.envs.social_deduction.theory_of_mind:TheoryOfMind"),
    Entry(
        "TheoryOfMind-Second-v0",
        "agentgym.envs.social_deduction.theory_of_mind:TheoryOfMind",
        {"order": "second", "people": 4, "events": 24},
    ),
    Entry(
        "TheoryOfMind-Village-v0",
        "agentgym.envs.social_deduction.theory_of_mind:TheoryOfMind",
        {"episode": "village"},
    ),
    Entry("Diary-v0", "agentgym.envs.diary.diary:Diary"),
    Entry("Diary-Notes-v0", "agentgym.envs.diary.diary:Diary", {"notebook": 40}),
    Entry(
        "TextGeneration-v0",
        "agentgym.envs.generation.text_generation:TextGeneration",
    ),
    Entry(
        "TextGeneration-Words-v0",
        "agentgym.envs.generation.text_generation:TextGeneration",
        {"words": True},
    ),
    Entry("Todo-v0", "agentgym.envs.office.todo:Todo"),
    Entry("Drafts-v0", "agentgym.envs.office.drafts:Drafts"),
    Entry("Sheet-v0", "agentgym.envs.office.sheet:Sheet"),
    Entry("Workplace-v0", "agentgym.envs.office.workplace:Workplace"),
    Entry("Workplace-Missions-v0", "agentgym.envs.office.workplace_missions:WorkplaceMissions"),
    Entry("Weather-v0", "agentgym.envs.office.weather:Weather"),
    Entry("Movie-v0", "agentgym.envs.office.movie:Movie"),
    Entry("Academia-v0", "agentgym.envs.office.academia:Academia"),
    Entry("MiniWoB-Text-v0", "agentgym.envs.web.miniwob_text:MiniWoBText"),
    Entry("MiniWoB-Text-Long-v0", "agentgym.envs.web.miniwob_text:MiniWoBText", {"length": 4}),
    Entry("Shell-v0", "agentgym.envs.shell.shell:Shell"),
    Entry("CTF-Lite-v0", "agentgym.envs.shell.ctf_lite:CTFLite"),
    Entry(
        "CTF-Lite-Hard-v0",
        "agentgym.envs.shell.ctf_lite:CTFLite",
        {"stages": 3, "hints": False},
    ),
    Entry("SmallML-v0", "agentgym.envs.tabular.small_ml:SmallML"),
    Entry(
        "SmallML-Hard-v0",
        "agentgym.envs.tabular.small_ml:SmallML",
        {"columns": 9, "rows": 50, "diagnostics": False},
    ),
    Entry("GeneratedWorlds-v0", "agentgym.envs.worlds.generated_worlds:GeneratedWorlds"),
    # Single agent, with third-party engines that are installed as extras.
    Entry("Chess-v0", "agentgym.envs.chess.game:Chess", **CHESS),
    Entry("ChessEndgames-v0", "agentgym.envs.chess.endgames:ChessEndgames", **CHESS),
    Entry("PythonTests-v0", "agentgym.envs.code.python_tests:PythonTests", **MONTY),
    Entry("PythonMath-v0", "agentgym.envs.code.python_math:PythonMath", **MONTY),
    Entry(
        "PythonMath-Reset-v0",
        "agentgym.envs.code.python_math:PythonMath",
        {"persistent": False},
        **MONTY,
    ),
    Entry("DataSciCoding-v0", "agentgym.envs.tabular.data_sci_coding:DataSciCoding", **MONTY),
    Entry("BugFix-v0", "agentgym.envs.code.bug_fix:BugFix", **SANDLOCK),
    Entry("BugFix-Two-v0", "agentgym.envs.code.bug_fix:BugFix", {"bugs": 2}, **SANDLOCK),
    Entry("BabyAI-Text-v0", "agentgym.envs.babyai.babyai_text:BabyAIText", **MINIGRID),
    Entry(
        "BabyAI-Text-Original-v0",
        "agentgym.envs.babyai.babyai_text:BabyAIText",
        {"original": True},
        **MINIGRID,
    ),
    Entry(
        "ALFWorld-v0",
        "agentgym.envs.household.alfworld:ALFWorld",
        extra="alfworld",
        package="textworld",
        files=True,
    ),
    Entry("TextWorld-Cooking-v0", "agentgym.envs.textworld.cooking:Cooking", **TEXTWORLD),
    Entry(
        "TextWorld-CoinCollector-v0",
        "agentgym.envs.textworld.coin_collector:CoinCollector",
        **TEXTWORLD,
    ),
    Entry(
        "TextWorld-TreasureHunter-v0",
        "agentgym.envs.textworld.treasure_hunter:TreasureHunter",
        **TEXTWORLD,
    ),
    Entry(
        "ScienceWorld-v0",
        "agentgym.envs.scienceworld.env:ScienceWorld",
        extra="scienceworld",
        package="scienceworld",
    ),
    Entry("Jericho-v0", "agentgym.envs.jericho.env:Jericho", extra="textworld", package="jericho"),
    # Multi-agent.
    Entry("TicTacToe-v0", "agentgym.envs.board.tictactoe"),
    Entry("ConnectFour-v0", "agentgym.envs.board.connect_four"),
    Entry("PrisonersDilemma-v0", "agentgym.envs.matrix.prisoners_dilemma"),
    Entry("PrisonersDilemma-Talk-v0", "agentgym.envs.matrix.prisoners_dilemma", {"messages": 1}),
    Entry(
        "PrisonersDilemma-Unknown-v0",
        "agentgym.envs.matrix.prisoners_dilemma",
        seat={"opponents": "unknown"},
    ),
    Entry("StagHunt-v0", "agentgym.envs.matrix.stag_hunt"),
    Entry("StagHunt-Talk-v0", "agentgym.envs.matrix.stag_hunt", {"messages": 1}),
    Entry("StagHunt-Unknown-v0", "agentgym.envs.matrix.stag_hunt", seat={"opponents": "unknown"}),
    Entry("Chicken-v0", "agentgym.envs.matrix.chicken"),
    Entry("Chicken-Talk-v0", "agentgym.envs.matrix.chicken", {"messages": 1}),
    Entry("Chicken-Unknown-v0", "agentgym.envs.matrix.chicken", seat={"opponents": "unknown"}),
    Entry("RockPaperScissors-v0", "agentgym.envs.matrix.rock_paper_scissors"),
    Entry("RockPaperScissors-Talk-v0", "agentgym.envs.matrix.rock_paper_scissors", {"messages": 1}),
    Entry(
        "RockPaperScissors-Unknown-v0",
        "agentgym.envs.matrix.rock_paper_scissors",
        seat={"opponents": "unknown"},
    ),
    Entry("KuhnPoker-v0", "agentgym.envs.cards.kuhn_poker"),
    Entry("LeducPoker-v0", "agentgym.envs.cards.leduc_poker"),
    Entry("LiarsDice-v0", "agentgym.envs.cards.liars_dice"),
    Entry("LiarsDice-Duel-v0", "agentgym.envs.cards.liars_dice", {"dice": 1}),
    Entry("LiarsDice-Four-v0", "agentgym.envs.cards.liars_dice", {"num_players": 4}),
    Entry("Gops-v0", "agentgym.envs.cards.gops"),
    Entry("Gops-Carry-v0", "agentgym.envs.cards.gops", {"ties": "carry"}),
    Entry("Hanabi-v0", "agentgym.envs.cards.hanabi"),
    Entry(
        "Hanabi-Small-v0",
        "agentgym.envs.cards.hanabi",
        {"colors": 2, "hand": 2, "hints": 3, "fuses": 1},
    ),
    Entry("Overcooked-Cooks-v0", "agentgym.envs.overcooked.cooks"),
    Entry(
        "Overcooked-Cooks-Three-v0",
        "agentgym.envs.overcooked.cooks",
        {"num_players": 3, "recipe": "lettuce-onion-tomato salad", "horizon": 100},
    ),
    Entry("Werewolf-v0", "agentgym.envs.social_deduction.werewolf"),
    Entry("Werewolf-Menu-v0", "agentgym.envs.social_deduction.werewolf", {"speech": "menu"}),
    Entry("Avalon-v0", "agentgym.envs.social_deduction.avalon"),
    Entry("Avalon-Menu-v0", "agentgym.envs.social_deduction.avalon", {"speech": "menu"}),
    Entry("Codenames-v0", "agentgym.envs.communication.codenames"),
    Entry("Codenames-Menu-v0", "agentgym.envs.communication.codenames", {"clues": "menu"}),
    Entry("CommonsHarvest-v0", "agentgym.envs.social.commons_harvest"),
    Entry("AdversarialTaboo-v0", "agentgym.envs.communication.adversarial_taboo"),
    Entry("ReferentialGame-v0", "agentgym.envs.communication.referential"),
    Entry("ReferentialGame-Menu-v0", "agentgym.envs.communication.referential", {"speech": "menu"}),
    Entry("PublicGoods-v0", "agentgym.envs.social.public_goods"),
    Entry("TrustAndSplit-v0", "agentgym.envs.social.trust_and_split"),
    Entry(
        "TrustAndSplit-Unknown-v0",
        "agentgym.envs.social.trust_and_split",
        seat={"opponents": "unknown"},
    ),
    Entry("GuessTwoThirds-v0", "agentgym.envs.economics.guess_two_thirds"),
    Entry(
        "GuessTwoThirds-Unknown-v0",
        "agentgym.envs.economics.guess_two_thirds",
        seat={"opponents": "unknown"},
    ),
    Entry("Auction-v0", "agentgym.envs.economics.auction"),
    Entry("Auction-SecondPrice-v0", "agentgym.envs.economics.auction", {"price": "second"}),
    Entry("TwentyQuestions-TwoPlayer-v0", "agentgym.envs.communication.twenty_questions"),
    Entry(
        "TwentyQuestions-TwoPlayer-Menu-v0",
        "agentgym.envs.communication.twenty_questions",
        {"question_menu": True},
    ),
    Entry("Retail-TwoPlayer-v0", "agentgym.envs.service.two_player"),
    Entry("Airline-TwoPlayer-v0", "agentgym.envs.service.two_player", {"env": "Airline-v0"}),
    Entry("Telecom-TwoPlayer-v0", "agentgym.envs.service.two_player", {"env": "Telecom-v0"}),
    Entry("WatchAndHelp-TwoPlayer-v0", "agentgym.envs.household.two_player"),
    Entry("EinsteinPuzzle-v0", "agentgym.envs.communication.einstein"),
    Entry("EinsteinPuzzle-Menu-v0", "agentgym.envs.communication.einstein", {"speech": "menu"}),
    Entry(
        "EinsteinPuzzle-Three-v0",
        "agentgym.envs.communication.einstein",
        {"num_players": 3, "rounds": 2},
    ),
    Entry("CoWriting-v0", "agentgym.envs.communication.co_writing"),
    Entry("Debate-v0", "agentgym.envs.communication.debate"),
    Entry("Debate-Judge-v0", "agentgym.envs.communication.debate", {"num_players": 3}),
    Entry("DealOrNoDeal-v0", "agentgym.envs.negotiation.deal_or_no_deal"),
    Entry("ResourceTrading-v0", "agentgym.envs.negotiation.resource_trading"),
    Entry(
        "ResourceTrading-Gain-v0", "agentgym.envs.negotiation.resource_trading", {"reward": "gain"}
    ),
    Entry("ProposeSolve-v0", "agentgym.envs.propose_solve.propose_solve"),
    Entry(
        "ProposeSolve-Programs-v0",
        "agentgym.envs.propose_solve.propose_solve",
        {"domain": "programs"},
        **MONTY,
    ),
    Entry("Team-Countdown-v0", "agentgym.envs.team.team"),
    Entry("Team-Countdown-Checker-v0", "agentgym.envs.team.team", {"roles": "proposer-checker"}),
    Entry("Team-Arithmetic-v0", "agentgym.envs.team.team", {"env": "Arithmetic-v0"}),
    Entry(
        "Team-Arithmetic-Checker-v0",
        "agentgym.envs.team.team",
        {"env": "Arithmetic-v0", "roles": "proposer-checker"},
    ),
    Entry(
        "Team-NumberLine-v0",
        "agentgym.envs.team.team",
        {"env": "NumberLine-v0", "roles": "thinker-reasoner"},
    ),
)

PLUGS = {
    "Remote-v0": "agentgym.integrations.remote:RemoteEnv",
    "ReasoningGym-v0": "agentgym.integrations.reasoning_gym:ReasoningGym",
    "TextArena-v0": "agentgym.integrations.textarena:TextArena",
    "BrowserGym-v0": "agentgym.integrations.browsergym:BrowserGym",
    "NetHack-v0": "agentgym.integrations.nethack:NetHack",
}
"""Environments of others, whose rules are no part of AgentGym, by id without the namespace."""
