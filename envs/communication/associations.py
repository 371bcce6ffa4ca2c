"""Words for Codenames and the topics they are linked to. The list and the links are our own."""

from __future__ import annotations

from functools import cache

TOPICS = """
animal: lion tiger horse rabbit mouse bear wolf snake monkey / eagle shark spider seal owl bat
bird: eagle owl duck crane penguin turkey / feather nest bat wing egg
ocean: whale shark wave coral anchor octopus / ship beach salt pirate pearl island seal
insect: spider bee ant butterfly beetle / honey web fly mosquito
farm: horse turkey barn tractor fence goat egg / field corn milk duck well wheat
pet: rabbit mouse hamster parrot / horse snake spider collar
forest: tree bear wolf mushroom owl / path cabin moss stump needle ranger
fruit: apple orange lemon cherry grape plum / juice tree olive seed date
vegetable: carrot onion potato corn pepper / mushroom soup olive root
drink: milk juice tea coffee water wine / glass bottle cup straw bar
breakfast: egg toast butter honey coffee / milk juice apple tea bacon
kitchen: knife oven fork pan sink / table salt pepper glass plate spoon cup
dessert: cake chocolate cream candy / cherry honey apple sugar cone
spice: pepper salt ginger / mint needle onion
meal: soup pizza bread rice cheese / table plate potato turkey fork
bakery: bread cake flour roll / oven butter sugar wheat
tool: hammer saw drill wrench screw nail / knife needle ladder brush file axe
sewing: needle thread button cloth pin / scissors silk pattern belt
house: door window roof wall / table chimney bed lamp key fence
furniture: table chair bed desk lamp / mirror drawer carpet board
bathroom: mirror towel soap brush / sink water tube scale
building: tower castle church bridge / wall brick crane roof barn cabin
castle: knight king tower queen dragon / wall bridge horse crown sword
royalty: king queen crown prince / ruler knight palace pearl diamond
war: tank soldier bomb sword / shield ship general trench missile
weapon: sword bow bomb pistol / knife axe missile arrow bat
pirate: treasure hook ship parrot / island sword flag map gold
crime: thief police jail robber / mask pistol witness glove bank
law: judge court police / jail witness suit trial
money: bank gold coin check bill / diamond safe stock note tip
jewel: diamond ring pearl ruby / gold crown necklace watch silver
metal: gold iron silver copper steel / ring nail coin tin anchor
office: desk printer paper / file board stamp chair pen secretary
school: teacher chalk lesson pen / board desk bell pupil ruler book
book: page novel cover library / spine story paper table
writing: pen novel paper ink letter / note poet page story
music: piano drum violin guitar bell / note band organ string bow
party: balloon cake candle band / music hat glass wine
theater: stage curtain actor mask / ticket play box star
film: actor camera ticket screen / star reel director popcorn
game: chess card dice / board king queen knight ace match
sport: tennis soccer golf / ball racket goal match net ring
baseball: bat pitcher diamond glove / ball base strike plate
fishing: net hook boat rod / line river worm lake bait
winter: snow ice ski / scarf glove coat penguin sled
weather: rain snow storm cloud wind / sun lightning ice umbrella
sky: cloud star moon sun / plane kite eagle lightning rocket
space: rocket planet star moon comet / telescope satellite alien
science: microscope laboratory telescope atom / tube cell formula scale
body: hand heart arm foot nose / bone back organ palm
face: nose eye lip mouth / mask mirror brush
medicine: doctor needle pill nurse / organ heart patient mint
clothes: shirt coat scarf glove belt suit / boot button tie pocket hat
shoe: boot heel lace / foot sole horn tongue
travel: plane train ticket map suitcase / ship passport hotel bus
vehicle: bus train truck tank / tractor ship plane wheel boat sled
car: wheel engine horn trunk brake / key battery truck mirror
road: bridge truck bus sign / wheel path fork light map
river: bridge boat bank water / mouth bed crane wave stone
desert: camel sand cactus pyramid / sun snake palm
egypt: pyramid mummy camel / sand cat cotton river
camping: tent fire cabin lantern / bear torch lake rope
fire: torch match candle smoke dragon / chimney oven ash lamp
light: lamp candle torch lantern sun / star lightning match bulb window
electricity: battery plug bulb current / lightning lamp cable switch
computer: mouse screen keyboard virus / file chip cable net web
garden: flower rose seed / bee fence worm butterfly tree root
plant: flower root cactus moss seed / rose leaf mint cotton stem
color: orange pink / rose plum silver ruby cherry paint
art: paint brush frame sculptor / canvas pen picture gallery
photo: camera frame picture / lens album portrait
fairytale: dragon witch prince giant / apple frog wolf mirror
magic: witch wizard wand / card hat rabbit mirror spell
halloween: witch mask pumpkin ghost / bat candy spider
christmas: tree sled star candle / bell snow turkey angel
wedding: ring cake bride church / veil band bell suit
church: angel organ bell priest / candle cross tower
time: watch hour calendar / date sand second bell
west: cowboy saddle sheriff / horse hat pistol gold boot
circus: clown tent lion / ring elephant balloon monkey net
hospital: nurse doctor patient / bed ward pill mask
mail: letter stamp envelope / box post pigeon
hair: comb brush wig / crown wax curl bow
mountain: peak cabin stone / ski snow goat rope
"""


@cache
def topics() -> dict[str, dict[str, int]]:
    """Returns the words of every topic with the strength of their link: 2 (strong) or 1 (weak)."""
    found = {}
    for line in TOPICS.strip().splitlines():
        name, _, listed = line.partition(": ")
        strong, _, weak = listed.partition(" / ")
        links = dict.fromkeys(weak.split(), 1) | dict.fromkeys(strong.split(), 2)
        found[name] = links
    return found


@cache
def vocabulary() -> tuple[str, ...]:
    """Returns the words of the boards, sorted: all words that belong to at least two topics."""
    count: dict[str, int] = {}
    for links in topics().values():
        for word in links:
            count[word] = count.get(word, 0) + 1
    return tuple(sorted(word for word, n in count.items() if n > 1 and word not in topics()))


@cache
def topics_of(word: str) -> dict[str, int]:
    """Returns the topics of a word, with the strength of each link."""
    return {topic: links[word] for topic, links in topics().items() if word in links}


@cache
def link(clue: str, word: str) -> float:
    """Returns the strength of the association between a clue and a word, from 0 to 2.

    A topic is linked to its words. A word is linked, more weakly, to other words of its topics.
    """
    if clue in topics():
        return float(topics()[clue].get(word, 0))
    shared = [
        links[clue] * links[word] for links in topics().values() if {clue, word} <= set(links)
    ]
    return min(1.9, 0.45 * sum(shared))
