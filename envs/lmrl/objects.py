"""The things of TwentyQuestions and their traits.

A block is a category: its name in brackets, then the traits of all its things. A line is a thing:
its name and other names, its size, its further traits and, after a minus, traits of the category
that it lacks. The facts are those of a typical thing of the name.

Sizes: 1 a coin, 2 fits in a pocket, 3 held in one hand, 4 a breadbox, 5 a chair, 6 a person or a
sofa, 7 a car, 8 a bus or a house, 9 a landscape and larger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

TABLE = """
[sport] sport play outdoors
basketball: 4 ball round team rubber orangecolor bounces thrown indoors
football;american football: 4 ball team leather brown thrown kicked
soccer ball: 4 ball round team leather white black kicked bounces
volleyball: 4 ball round team leather white bounces indoors thrown
tennis ball: 2 ball round yellow green bounces hitwith
golf ball: 1 ball round white plastic hitwith
baseball: 2 ball round team white leather thrown hitwith
bowling ball: 4 ball round heavy indoors thrown -outdoors black
tennis racket;racket: 4 handle strings long hits
baseball bat;bat: 4 wood handle long hits team
hockey stick: 5 wood handle long hits team winter
skateboard: 4 wood wheels ride standon flat
surfboard: 6 ride standon floats water flat
skis;ski;pair of skis: 6 pairs feet worn ride standon winter long flat

[animal] animal alive natural legs fourlegs outdoors eyes
cat;kitten: 4 mammal fur pet predator indoors tail claws
dog;puppy: 5 mammal fur pet predator indoors tail barks
horse;pony: 7 mammal fur farm ride hooves tail
cow: 7 mammal fur farm hooves horns tail givesmilk meat
goat: 5 mammal fur farm hooves horns givesmilk
sheep;lamb: 5 mammal fur farm hooves white wool meat
rabbit;bunny: 4 mammal fur pet longears
lion: 6 mammal fur wild predator tail claws dangerous mane yellow
tiger: 6 mammal fur wild predator tail claws dangerous stripes orangecolor
elephant: 7 mammal wild gray longnose tail heavy longears
giraffe: 7 mammal fur wild longneck tail spots yellow tall
penguin: 5 bird feathers wild eggs swims black white winter -fourlegs wings beak
eagle: 5 bird feathers wild eggs flies predator -fourlegs wings beak
chicken;hen: 4 bird feathers farm eggs wings beak meat -fourlegs
shark: 7 fish wild predator swims water dangerous gray -legs -fourlegs tail eggs
frog: 2 wild eggs swims water green jumps
snake: 5 reptile wild eggs predator dangerous long -legs -fourlegs scales

[fruit] fruit plant natural edible sweet kitchen grows
apple: 2 red green round treefruit
banana: 3 yellow long peel tropical treefruit
orange: 2 orangecolor round peel citrus treefruit juicy
lemon: 2 yellow peel citrus treefruit sour juicy -sweet
strawberry: 1 red smallseeds juicy berry
grape;grapes: 1 green purple round berry vine juicy bunch
watermelon: 4 green red round smallseeds juicy peel vine heavy
pineapple: 4 yellow brown tropical spiky juicy peel
mango: 3 orangecolor yellow tropical pit treefruit juicy peel
peach: 2 orangecolor pit treefruit round juicy
cherry;cherries: 1 red pit treefruit round bunch
coconut: 4 brown round tropical treefruit white

[vehicle] vehicle metal ride outdoors
car;automobile: 7 wheels engine fourwheels windows road
truck;lorry: 8 wheels engine road cargo windows heavy
bus: 8 wheels engine road public windows heavy
motorcycle;motorbike: 6 wheels engine road twowheels
bicycle;bike: 6 wheels road twowheels pedals
train: 8 wheels engine public rails windows heavy long
boat: 7 watercraft floats water wood engine
ship: 8 watercraft floats water engine public cargo heavy
submarine: 8 watercraft water underwater engine heavy military
airplane;plane;aeroplane: 8 flies engine public windows wings wheels heavy expensive
helicopter: 7 flies engine windows expensive spins
tractor: 7 wheels engine fourwheels heavy
ambulance: 7 wheels engine fourwheels windows road hospital sound white
rocket;spaceship;space rocket: 8 flies engine space expensive heavy

[clothing] clothing worn fabric soft bedroom indoors folded
shirt;t-shirt: 4 upper sleeves
pants;pant;trousers;jeans;pair of pants;pair of trousers;pair of jeans: 4 lower
jacket;coat: 4 upper sleeves warm zipper
sweater;pullover;jumper: 4 upper sleeves warm wool
dress: 5 women upper lower
skirt: 4 women lower
belt: 3 leather waist long -fabric -soft
shoes;shoe;pair of shoes: 4 feet pairs leather rubber laces
boots;boot;pair of boots: 4 feet pairs leather rubber winter warm
socks;sock;pair of socks: 3 feet pairs
hat;cap: 4 head
scarf: 3 neck warm long winter wool
gloves;glove;pair of gloves: 3 hands pairs warm winter
tie;necktie: 3 neck formal men long

[electronic] electronic electricity plastic indoors buttons house
laptop;computer;laptop computer: 4 screen keys officeplace expensive communicate portable
smartphone;phone;mobile phone;cell phone: 2 screen communicate expensive battery portable sound
television;tv;television set: 6 screen livingroom sound watch expensive
headphones;headphone;pair of headphones;earphones: 3 sound worn head listen portable
camera: 3 lens photos battery portable expensive
microwave;microwave oven: 5 kitchen cookwith heats door metal
refrigerator;fridge: 6 kitchen cold door storage metal heavy
toaster: 4 kitchen cookwith heats metal
blender;mixer: 4 kitchen cookwith blade sound spins glass
vacuum cleaner;vacuum;hoover: 5 cleaning sound wheels
washing machine;washer: 6 cleaning water spins door metal heavy bathroom
remote control;remote: 2 livingroom battery handheld portable
printer: 5 officeplace
flashlight;torch: 3 light battery handheld portable outdoors

[instrument] instrument music sound play indoors
piano: 6 keys strings wood heavy expensive pedals black
guitar: 5 strings wood plucked portable
drum;drums: 5 struck round
violin;fiddle: 4 strings wood bow portable orchestra
flute: 4 blown metal long portable orchestra
trumpet: 4 blown metal brass portable orchestra
saxophone: 5 blown metal brass portable
harp: 6 strings wood plucked orchestra heavy
accordion: 5 keys portable
harmonica;mouth organ: 2 blown metal handheld portable
xylophone: 5 struck colorful children

[furniture] furniture house indoors wood
chair: 5 sit legs fourlegs kitchen back
table;dining table: 6 legs fourlegs flat kitchen livingroom
bed: 6 sleep bedroom lie legs
desk: 6 legs fourlegs flat officeplace
sofa;couch: 6 sit soft livingroom fabric lie back
bookshelf;bookcase;shelf: 6 storage livingroom officeplace tall
wardrobe;closet: 6 storage bedroom door tall heavy
dresser;chest of drawers: 6 storage bedroom drawers heavy
stool: 5 sit legs
mirror: 5 glass flat fragile bathroom reflects hangs -wood
mattress: 6 sleep bedroom lie soft fabric -wood
pillow;cushion: 4 sleep bedroom soft fabric head -wood
bench;park bench: 6 sit outdoors legs back
rug;carpet: 6 flat soft fabric livingroom -wood

[office] stationery officeplace school handheld portable indoors
pen: 2 write ink plastic long
pencil: 2 write wood long sharp
sheet of paper;paper;piece of paper: 3 papermade flat white writeon -handheld
stapler: 3 metal fastens
calculator: 2 buttons numbers electronic electricity battery plastic
envelope: 3 papermade flat
notebook;notepad;diary: 3 papermade pages writeon
book;novel: 3 papermade pages read
ruler: 3 measure flat long plastic numbers
scissors;pair of scissors: 3 cuts blade sharp metal handle
paper clip;paperclip: 1 metal fastens
calendar: 4 papermade pages numbers hangs
tape;sticky tape;adhesive tape: 2 sticky plastic fastens round
eraser;rubber: 1 rubber erases soft

[vegetable] vegetable plant natural edible kitchen grows healthy
carrot: 2 orangecolor long underground crunchy
potato;potatoes: 2 brown underground cooked starchy round
broccoli: 3 green cooked
tomato;tomatoes: 2 red round juicy smallseeds vine
onion;onions: 2 underground round smell
corn;maize;sweetcorn: 3 yellow long cooked starchy tall
cucumber: 3 green long smallseeds vine crunchy
pumpkin: 4 orangecolor round heavy vine cooked hollow
lettuce: 4 green leafy crunchy
spinach: 3 green leafy cooked
garlic: 1 white underground smell cooked
peas;pea: 1 green round cooked
pepper;bell pepper: 2 red green yellow hollow smallseeds crunchy
chili;chili pepper;chilli: 2 red hot smallseeds

[art] artistic school
paintbrush;brush: 3 paints handle long wood handheld portable
canvas: 5 flat fabric white
painting;picture: 5 flat colorful hangs decoration expensive museum
sculpture;statue: 6 stonemade decoration museum expensive heavy
crayon;wax crayon: 2 colorful draws children long handheld
easel: 6 wood legs
clay;modeling clay: 3 soft natural
marker;felt-tip pen;highlighter: 2 draws write ink plastic long handheld colorful
glue;glue stick;bottle of glue: 2 sticky fastens liquid plastic handheld

[kitchen] kitchenware kitchen indoors house
knife;kitchen knife: 3 cuts blade sharp metal handle eatwith handheld dangerous
fork: 3 metal handle eatwith handheld sharp
spoon: 3 metal handle eatwith handheld
plate;dish: 4 flat round ceramic fragile eatfrom
bowl: 4 round ceramic fragile eatfrom container
pot;cooking pot;saucepan: 4 metal cookwith container handle lid
frying pan;pan;skillet: 4 metal cookwith handle flat
cup;mug;coffee cup: 3 ceramic drinkfrom container handle handheld fragile
glass;drinking glass;wine glass: 3 glass drinkfrom container handheld fragile
bottle;water bottle: 3 glass plastic drinkfrom container
whisk;egg beater: 3 metal handle cookwith handheld
chopsticks;chopstick;pair of chopsticks: 3 wood pairs eatwith long handheld
cutting board;chopping board: 4 wood flat
kettle;teapot: 4 metal container handle heats lid
rolling pin: 4 wood handle round long

[nature] landscape natural outdoors
rock;stone: 3 stonemade heavy
tree: 8 alive plant grows wood green tall
flower;rose: 3 alive plant grows smell colorful beautiful
cactus: 5 alive plant grows green spiky desert
grass: 2 alive plant grows green ground
leaf;leaves: 2 plant grows green flat
mountain: 9 stonemade tall climbed place
forest;woods: 9 alive plant green place
ocean;sea: 9 water liquid place blue salt
lake: 9 water liquid place
river: 9 water liquid place long
beach: 9 place yellow
volcano: 9 place stonemade heats dangerous tall
island: 9 place
cloud: 9 sky white water
sun: 9 sky yellow heats space round light
moon: 9 sky space round night stonemade
star: 9 sky space night light heats
rain: 2 sky water liquid weather
snow: 2 sky water cold white weather winter
sand: 1 ground yellow

[toy] toy play children
doll: 4 plastic looksperson indoors
teddy bear;stuffed animal;stuffed toy: 4 soft fabric looksanimal indoors
kite: 5 flies outdoors fabric
puzzle;jigsaw puzzle;jigsaw: 4 pieces flat indoors
yo-yo;yoyo: 2 round plastic handheld
balloon: 4 rubber round party colorful
building blocks;building block;toy blocks;blocks: 3 builds pieces indoors plastic colorful
marbles;marble: 1 round glass
rocking horse: 5 wood ride sit looksanimal
swing: 6 outdoors sit playground hangs
slide: 7 outdoors playground climbed metal
dice;die: 1 numbers gameuse
playing cards;deck of cards;card deck;cards: 2 papermade flat numbers gameuse -children

[jewelry] jewelry worn metal gold expensive shiny beautiful
ring;wedding ring: 1 hands finger round wedding
necklace: 2 neck
bracelet: 2 wrist round
earrings;earring;pair of earrings: 1 pairs ears
wristwatch;watch: 2 wrist timekeeping numbers battery round
crown;tiara: 4 head royal
brooch;pin: 1 upper
sunglasses;shades;pair of sunglasses: 2 plastic glass head summer -metal -gold -shiny

[garden] gardening outdoors
shovel;spade: 5 dig handle metal wood long
rake: 6 handle metal wood long
watering can: 4 container waters plastic handle
lawn mower;lawnmower;mower: 6 engine blade wheels sound handle
wheelbarrow: 6 wheels handle metal
garden hose;hose: 5 waters rubber long
flowerpot;flower pot;plant pot: 4 container ceramic fragile
fence: 8 wood long metal

[tool] tooluse metal garage handheld
hammer: 4 handle wood hits heavy
screwdriver: 3 handle turns
wrench;spanner: 3 turns
saw;handsaw: 4 handle cuts blade sharp
pliers;pair of pliers: 3 handle grips
drill;power drill: 4 electricity handle sound spins
axe;ax;hatchet: 5 handle cuts blade sharp wood outdoors dangerous
ladder: 6 climbed tall -handheld wood
nail: 1 sharp fastens -handheld
screw: 1 fastens -handheld
tape measure;measuring tape: 2 measure numbers long
key: 1
toolbox: 4 container handle storage -handheld"""


@dataclass(frozen=True)
class Thing:
    """A thing to guess.

    Attributes:
        names: its name and other names.
        size: from 1 (a coin) to 9 (a landscape).
        traits: its traits, by the names in the table.
    """

    names: tuple[str, ...]
    size: int
    traits: frozenset[str]

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]


PLAIN = frozenset(
    "skis pants shoes boots socks gloves headphones scissors broccoli corn lettuce spinach garlic "
    "peas clay glue chopsticks grass rain snow sand building_blocks marbles dice playing_cards "
    "earrings sunglasses pliers tape".split()
)
"""Names that take no article, with "_" for a space."""
HOME = frozenset("house kitchen bedroom livingroom bathroom".split())


def implied(size: int, traits: frozenset[str] | set[str]) -> set[str]:
    """Returns the traits implied by a thing's size and other traits."""
    follows = {
        "manmade": "natural" not in traits,
        "house": bool(HOME & traits),
        "household": bool(HOME & traits),
        "machine": bool({"engine", "electricity"} & traits),
        "moving": bool({"vehicle", "legs", "flies", "swims", "wheels"} & traits),
        "tool": bool({"tooluse", "gardening"} & traits),
        "herbivore": "mammal" in traits and "predator" not in traits,
        "object": size < 9 and "sky" not in traits,
        "big": size > 6,
        "little": size <= 2,
        "inhand": size <= 3,
        "liftable": size <= 5 and "heavy" not in traits,
    }
    return {trait for trait, holds in follows.items() if holds}


@cache
def things() -> tuple[Thing, ...]:
    """Returns all things of the table."""
    found: list[Thing] = []
    common: set[str] = set()
    for line in TABLE.strip().splitlines():
        if line.startswith("["):
            common = set(line.partition("]")[2].split())
        elif line:
            names, _, rest = line.partition(":")
            size, *words = rest.split()
            without = {word[1:] for word in words if word[0] == "-"}
            traits = common - without | {word for word in words if word[0] != "-"}
            traits |= implied(int(size), traits)
            found.append(Thing(tuple(names.split(";")), int(size), frozenset(traits)))
    return tuple(found)
