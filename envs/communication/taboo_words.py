"""Words of Adversarial Taboo, clues about each, and the forms of a word.

Words and facts are those of TwentyQuestions. The clues, which put the facts into words, are our
own.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

import numpy as np
import Stemmer

from agentgym.envs.lmrl.objects import PLAIN, Thing, things
from agentgym.envs.lmrl.twenty_questions import answers, lexicon
from agentgym.reading import normalized

CLUES = {
    "animal": "is an animal", "mammal": "is a mammal", "bird": "is a bird", "pet": "is a pet",
    "farm": "lives on a farm", "wild": "lives in the wild", "predator": "hunts",
    "fur": "has fur", "wings": "has wings", "hooves": "has hooves", "horns": "has horns",
    "tail": "has a tail", "stripes": "has stripes", "eggs": "lays eggs",
    "fourlegs": "has four legs", "flies": "can fly", "swims": "swims", "jumps": "hops",
    "feathers": "has feathers", "claws": "has claws", "scales": "is scaly", "spots": "is spotted",
    "mane": "has a mane", "longneck": "has a long neck", "longnose": "has a tusk",
    "longears": "has long ears", "barks": "barks", "givesmilk": "gives milk",
    "dangerous": "is dangerous", "edible": "is edible", "plant": "is a plant",
    "fruit": "is a fruit", "vegetable": "is a vegetable", "sweet": "tastes sweet",
    "sour": "tastes sour", "juicy": "is juicy", "citrus": "is a citrus fruit",
    "tropical": "is a tropical fruit", "treefruit": "grows on trees", "vine": "grows on a vine",
    "pit": "has a large stone inside", "smallseeds": "has many small seeds",
    "peel": "is peeled before eating", "underground": "grows under the ground",
    "leafy": "is leafy", "crunchy": "is crunchy", "cooked": "is cooked before eating",
    "smell": "has a strong smell", "berry": "is a berry", "red": "is red",
    "orangecolor": "is orange in color", "yellow": "is yellow", "green": "is green",
    "brown": "is brown", "white": "is white", "colorful": "has many colors", "purple": "is purple",
    "vehicle": "is a vehicle", "ride": "people ride", "wheels": "has wheels",
    "twowheels": "has two wheels", "engine": "has an engine", "road": "is used on roads",
    "rails": "uses rails", "pedals": "has pedals", "cargo": "hauls cargo",
    "watercraft": "travels on water", "underwater": "dives",
    "public": "carries many people at once", "space": "is found in outer space",
    "clothing": "is a piece of clothing", "worn": "is worn", "head": "goes on your head",
    "feet": "is worn on the feet", "hands": "is worn on the hands",
    "wrist": "is worn on the wrist", "neck": "is worn around the neck",
    "finger": "is worn on a finger", "waist": "is worn around the waist",
    "warm": "keeps you warm", "winter": "is used in winter", "summer": "is used in summer",
    "pairs": "comes in pairs", "sleeves": "has sleeves", "formal": "is formal",
    "wool": "is made of wool", "fabric": "is made of fabric", "leather": "is made of leather",
    "metal": "is made of metal", "gold": "is made of gold", "wood": "is made of wood",
    "plastic": "is made of plastic", "glass": "is made of glass", "rubber": "is made of rubber",
    "papermade": "is made of paper", "ceramic": "is made of ceramic",
    "stonemade": "is made of stone", "liquid": "is a liquid",
    "water": "has to do with water", "electronic": "is an electronic device",
    "electricity": "uses electricity", "battery": "runs on batteries",
    "screen": "has a screen", "keys": "has a keyboard", "photos": "takes pictures",
    "sound": "makes a sound", "heats": "gets hot", "cold": "is cold", "spins": "spins",
    "light": "gives light", "instrument": "is a musical instrument", "strings": "has strings",
    "plucked": "is plucked", "blown": "people blow into", "brass": "is a brass instrument",
    "bow": "is played with a bow", "orchestra": "is played in an orchestra",
    "furniture": "is a piece of furniture", "sleep": "is for sleeping",
    "storage": "is used to store things", "hangs": "hangs on a wall",
    "reflects": "reflects", "drawers": "has drawers", "stationery": "is an office supply",
    "write": "is used to write", "draws": "is used to draw", "ink": "uses ink",
    "pages": "has pages", "erases": "erases", "sticky": "is sticky", "fastens": "fastens",
    "measure": "is used to measure", "numbers": "has numbers", "timekeeping": "tells the time",
    "artistic": "is related to art", "kitchenware": "is a kitchen tool",
    "kitchen": "is found in the kitchen", "eatwith": "is used to eat with",
    "cookwith": "is used to cook with", "drinkfrom": "is used to drink from",
    "container": "is a container", "lid": "has a lid", "cuts": "is used to cut",
    "sharp": "is sharp", "blade": "has a blade", "bedroom": "is found in the bedroom",
    "livingroom": "is found in the living room", "garage": "is kept in a garage",
    "officeplace": "is found in an office", "school": "is used in school",
    "outdoors": "is found outdoors", "place": "is a place", "sky": "is seen in the sky",
    "weather": "is weather", "night": "is seen at night", "desert": "grows in the desert",
    "toy": "is a toy", "children": "is for children", "party": "is used at parties",
    "playground": "is found on a playground", "jewelry": "is jewelry",
    "royal": "is worn by royalty", "gardening": "is used in gardening",
    "dig": "is used to dig", "tool": "is a tool", "tooluse": "is used to build things",
    "turns": "is used to turn things", "hits": "is used to hit things", "grips": "grips",
    "handle": "has a handle", "sport": "is sports equipment", "ball": "is a ball",
    "team": "is used in team sports", "thrown": "is thrown", "kicked": "is kicked",
    "bounces": "bounces", "floats": "floats", "standon": "people stand on", "round": "is round",
    "long": "is long and thin", "flat": "is flat", "tall": "is tall", "soft": "is soft",
    "heavy": "is heavy", "fragile": "breaks easily", "expensive": "is expensive",
    "shiny": "is shiny", "hollow": "is hollow", "door": "has a door", "machine": "is a machine",
    "climbed": "is climbed", "landscape": "is part of the landscape",
    "upper": "is worn on the upper body", "lower": "is worn on the lower body",
    "women": "is worn by women", "men": "is worn by men", "laces": "has laces",
    "sit": "is for sitting", "back": "has a backrest", "lie": "is for lying down",
    "buttons": "has buttons", "lens": "has a lens", "windows": "has windows",
    "fourwheels": "has four wheels", "struck": "is played by hitting it",
    "listen": "is used to listen", "communicate": "is used to communicate",
    "blue": "is blue", "black": "is black", "gray": "is gray", "beak": "has a beak",
    "beautiful": "is beautiful", "salt": "is salty", "spiky": "has spikes",
    "starchy": "is starchy", "healthy": "is healthy", "bunch": "grows in a bunch",
    "writeon": "people write on", "read": "people read", "eatfrom": "people eat from",
    "museum": "is found in a museum", "decoration": "is used to decorate",
    "paints": "is used to paint", "zipper": "has a zipper", "pieces": "has many pieces",
    "military": "is used in war", "meat": "is a source of meat", "hot": "tastes spicy",
    "fish": "is a fish", "reptile": "is a reptile", "inhand": "is held in one hand",
    "big": "is bigger than a person", "little": "fits in a pocket",
}  # fmt: skip


TELLING = 8
"""Most notes about a word."""
_stem = Stemmer.Stemmer("english").stemWord
_WORD = re.compile(r"[^\W_]+")
_HYPHENED = re.compile(r"[^\W_]+(?:-[^\W_]+)+")
_SPELLED = re.compile(r"(?<![^\W_])[^\W\d_](?:[\W_]{1,3}[^\W\d_](?![^\W_])){2,}")


@cache
def words() -> tuple[str, ...]:
    """Returns the words: the names of things that are one word."""
    return tuple(things()[i].name for i in _indices())


@cache
def _indices() -> np.ndarray:
    return np.array([i for i, thing in enumerate(things()) if thing.name.isalpha()])


@cache
def _thing(word: str) -> Thing:
    return things()[int(_indices()[words().index(word)])]


@cache
def with_article(word: str) -> str:
    """Returns a word as it stands in a sentence: "an apple", "rain"."""
    article = "an " if word[0] in "aeiou" else "a "
    return word if word in PLAIN else article + word


@lru_cache(maxsize=4096)
def fitting(text: str) -> frozenset[str]:
    """Returns the words of which a text is true, as far as it is understood.

    It is empty if nothing is understood that divides the words.
    """
    truth = answers(text)[_indices()]
    best = truth.max()
    if best < 0 or (truth == best).all():
        return frozenset()
    return frozenset(word for word, value in zip(words(), truth, strict=True) if value == best)


def named(text: str) -> bool:
    """Returns whether a text names a thing."""
    return bool(lexicon().mentions(text))


@cache
def notes(word: str) -> tuple[str, ...]:
    """Returns at most `TELLING` true clues about a word, without forms of the word.

    The first two are the pair that fits the fewest words. The others follow, the rarest first.
    """
    known = [clue for trait, clue in CLUES.items() if trait in _thing(word).traits]
    found = [clue for clue in known if not says(clue, word)]
    found.sort(key=lambda clue: len(fitting(clue)))
    pairs = [(a, b) for i, a in enumerate(found) for b in found[i + 1 :]]
    best = min(pairs, key=lambda pair: len(fitting(pair[0]) & fitting(pair[1])))
    return (*best, *(clue for clue in found if clue not in best))[:TELLING]


@cache
def _forms(word: str) -> frozenset[str]:
    """Returns the stems of a word and of its plural, and a plural whose stem is of other words."""
    forms = {word, f"{word}s"}
    if word.endswith(("s", "x", "z", "ch", "sh", "o")):
        forms.add(f"{word}es")
    found = set(map(_stem, forms))
    if word.endswith(("f", "fe")):
        found.add(f"{word.removesuffix('e')[:-1]}ves")  # "leaves", but not "leave"
    return frozenset(found)


@lru_cache(maxsize=4096)
def _forms_in(text: str) -> frozenset[str]:
    """Returns the words in a text and their stems, also of those with hyphens or spelled out."""
    plain = unicodedata.normalize("NFKD", normalized(text).casefold())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    found = _WORD.findall(plain)
    found += ["".join(_WORD.findall(joined)) for joined in _HYPHENED.findall(plain)]
    for run in _SPELLED.findall(plain):
        letters = "".join(_WORD.findall(run))
        found += [letters, letters[1:]]  # "a k i t e"
    return frozenset((*found, *map(_stem, found)))


def says(text: str, word: str) -> bool:
    """Returns whether a text has a word in any form.

    The plural, "-ing", "-ed", "'s" and other words with the same stem are forms. Case, accents and
    marks do not matter. A part of a hyphenated word is a word, and so are its parts together
    ("sun-glasses"), and letters that are spelled out ("k-i-t-e"). A part of a longer word is none:
    "carpet" does not say "car".
    """
    return not _forms(word).isdisjoint(_forms_in(text))
