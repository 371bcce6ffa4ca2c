"""Questions about the traits of `objects`, and phrases that refer to them.

An entry: the trait | the question of the expert and the menu, if any | phrases, matched by their
stems. A phrase after "!" has the opposite meaning.
"""

from __future__ import annotations

from functools import cache

from agentgym.envs.lmrl.phrases import read_rows

TRAITS = """
alive | Is it a living thing? | alive; living; living thing; living being; living organism;
    organism; creature; breathe; !inanimate; !nonliving; !lifeless; !is it an object; !is it a
    thing; !is it an item; biological
natural | Is it found in nature? | natural; nature; naturally; occur naturally; found in nature;
    part of nature
manmade | | man made; manmade; human made; artificial; made by humans; made by people; made by man;
    manufactured; man made object; created by humans; synthetic; factory; invented; machine made;
    built by humans
edible | Can you eat it? | eat; eaten; edible; food; consume; a food; something you eat; meal;
    snack; foodstuff; ingredient; cook and eat; taste
animal | Is it an animal? | animal; beast; critter
mammal | Is it a mammal? | mammal
bird | Is it a bird? | bird
reptile | | reptile
fish | | fish; a fish
pet | Is it kept as a pet? | pet; house pet; domestic animal; domesticated; domestic; companion
farm | Is it a farm animal? | farm animal; live on a farm; found on a farm; farm; livestock; cattle
wild | Does it live in the wild? | wild; wild animal; live in the wild; zoo; found in a zoo;
    jungle; safari; africa
predator | Does it hunt or eat meat? | predator; carnivore; carnivorous; hunt; eat meat; meat
    eater; eat other animals; hunter
herbivore | | herbivore; eat grass; eat plants; vegetarian
fur | Does it have fur? | fur; furry; fluffy; hair; hairy; coat of fur
feathers | | feather
wings | Does it have wings? | wing
hooves | Does it have hooves? | hoof; hooves; hoofed
horns | Does it have horns? | horn
tail | Does it have a tail? | tail
claws | | claw; paw
stripes | Does it have stripes? | stripe; striped
spots | | spot; spotted
mane | | mane
longneck | | long neck
longnose | | trunk; tusk; long nose
longears | | long ear; big ear; large ear; floppy ear
eggs | Does it lay eggs? | egg; lay eggs; lays egg
scales | | scale; scaly
barks | | bark
legs | Does it have legs? | leg; have legs; feet of its own
fourlegs | Does it have four legs? | four leg; 4 leg; four legged; four feet
eyes | | eye; face; mouth; heart; brain; blood
swims | | swim; swimmer; live in water; live in the water; live in the ocean; live in the sea;
    aquatic; live underwater; aquatic animal; marine
flies | Can it fly? | fly; flies; flying; flight; fly in the air
jumps | | jump; hop
dangerous | Is it dangerous? | dangerous; deadly; harmful; hurt you; kill; weapon; harm; injure;
    !safe; hurt; venomous; poisonous
meat | | meat; source of meat; beef; eat its meat
givesmilk | | milk; give milk; produce milk; dairy
plant | Is it a plant or part of a plant? | plant; part of a plant; flora; botanical;
    photosynthesis
grows | | grow; grown; grow in the ground; grow in a garden; harvested; crop
fruit | Is it a fruit? | fruit; type of fruit
vegetable | Is it a vegetable? | vegetable; veggie
sweet | Does it taste sweet? | sweet; sugary; dessert
sour | | sour; acidic
hot | | spicy; hot taste
juicy | Is it juicy? | juicy; juice
citrus | Is it a citrus fruit? | citrus; citrus fruit
tropical | Is it a tropical fruit? | tropical; tropical fruit; tropical climate; exotic; tropics
treefruit | Does it grow on trees? | grow on tree; grow on a tree; grow on trees; grows on tree;
    tree fruit; come from a tree; hang from tree
vine | Does it grow on a vine? | vine; grow on a vine; grow on vines
berry | | berry; berries
pit | Does it have a large stone inside? | pit; large stone inside; stone inside; stone in the
    middle; single seed; one seed; big seed; large seed
smallseeds | Does it have many small seeds? | seed; many seeds; small seeds; many small seeds; lots
    of seeds
peel | Do you peel it before eating? | peel; peeled; peel before eating; peel it; peel it before
    eating; thick skin; rind; inedible skin
underground | Does it grow under the ground? | grow underground; underground; root vegetable; grow
    under the ground; root; dug up; below ground; beneath the ground
leafy | Is it leafy? | leafy; leafy green; leafy vegetable
crunchy | Is it crunchy? | crunchy; crisp; crispy
cooked | Is it usually cooked before eating? | cooked before eating; cook it before eating; need to
    be cooked; eat it cooked; !raw; !eaten raw; boiled; usually cooked; cook it; cooked before you
    eat it; usually cooked before eating
starchy | | starch; starchy; carbohydrate
healthy | | healthy; nutritious; vitamin; good for you; salad; found in a salad
smell | Does it have a strong smell? | smell; strong smell; scent; odor; stink; fragrant; aroma
bunch | | bunch; cluster
red | Is it usually red? | red; reddish
orangecolor | Is it usually orange in color? | orange; orange in color; orange colored; color
    orange
yellow | Is it usually yellow? | yellow; yellowish
green | Is it usually green? | green; greenish
blue | | blue
purple | | purple; violet
brown | Is it usually brown? | brown
black | | black
white | Is it usually white? | white
gray | | gray; grey
colorful | Is it usually colorful? | bright; many colors; multicolored; come in many colors;
    different colors; is it colorful; usually colorful; very colorful; multi colored; brightly
    colored
vehicle | Is it a vehicle? | vehicle; transportation; transport; means of transportation; mode of
    transportation; form of transportation; used for transportation; get around; travel in; travel;
    commute; automobile; used to travel
ride | Can you ride on it or in it? | ride; ride on; ride in; rideable; ride it; drive; driven;
    passenger; sit in it and travel
wheels | Does it have wheels? | wheel; roll on wheels; tire
twowheels | Does it have exactly two wheels? | two wheel; 2 wheel; exactly two wheel
fourwheels | | four wheel; 4 wheel
engine | Does it have an engine? | engine; motor; fuel; gas; gasoline; motorized; run on gas;
    powered by an engine; diesel; petrol
road | Is it used on roads? | road; street; drive on the road; on roads; travel on land; highway;
    traffic
rails | | rail; track; railway
watercraft | Does it travel on water? | travel on water; sail; watercraft; travel in water; travel
    by water; travel over water; move on water; move through water; vessel; float on water; used on
    the water; used on water
floats | | float; buoyant
underwater | | underwater; go underwater; under water; submerge; dive
public | Does it carry many people at once? | many people; carry many people; public
    transportation; public transport; carry lots of people; carry passengers; more than one person;
    mass transit; carry many people at once; hold many people
cargo | | cargo; goods; haul; carry heavy loads; freight; deliver
hospital | | hospital; emergency; medical; doctor; medicine; health care
space | Is it found in outer space? | space; outer space; planet; astronomy; universe; celestial;
    solar system; astronaut
clothing | Is it a piece of clothing? | clothing; clothes; article of clothing; piece of clothing;
    garment; apparel; item of clothing; outfit; fashion
worn | Do people wear it? | wear; worn; wearable; put on your body; on the body; on your body;
    accessory; dress up
head | Does it go on your head? | head; on your head; on the head; hair accessory; wear on your
    head; go on your head; headwear
feet | Do you wear it on your feet? | feet; foot; on your feet; footwear; on the feet; wear on your
    feet
hands | Do you wear it on your hands? | on your hands; on your hand; on the hand; wear on your
    hands; wear it on your hands; wear on your hand
finger | | finger; on your finger
wrist | Do you wear it on your wrist? | wrist; on your wrist; on your arm; arm
neck | Do you wear it around your neck? | neck; around your neck; around the neck
ears | | on your ears; in your ears; ear; earlobe
upper | Do you wear it on your upper body? | upper body; top half; torso; chest; above the waist;
    on the upper body; shirt like
lower | Do you wear it on your lower body? | lower body; bottom half; below the waist; on your
    legs; on the lower body; waist down
waist | | waist; around your waist
warm | Does it keep you warm? | warm; keep you warm; cold weather; keep warm; warmth; warmer
winter | Is it used mostly in winter? | winter; in winter; cold season; snow sport; used in winter;
    live in cold weather; cold climate; arctic; antarctica; cold places; polar
summer | | summer; sunny; sun protection
women | Is it worn mostly by women? | women; woman; female; feminine; lady; ladies; for women
men | | men; man; male; masculine; for men
formal | | formal; business attire; suit; special occasion
pairs | Does it come in pairs? | pair; come in pairs; in pairs; two of them; come in a pair; sold
    in pairs; set of two
laces | | lace; shoelace
sleeves | | sleeve
zipper | | zip; zipper
wool | Is it made of wool? | wool; knitted; knit
fabric | Is it made of fabric? | fabric; textile; cotton; made of fabric; made of cloth; polyester
leather | Is it made of leather? | leather; made of leather
metal | Is it made of metal? | metal; steel; iron; metallic; made of metal; aluminum; silver; tin;
    made from metal
gold | Is it often made of gold? | gold; golden; precious metal; made of gold; gem; diamond;
    precious
wood | Is it made of wood? | wood; wooden; made of wood; made from wood; timber
plastic | Is it made of plastic? | plastic; made of plastic
glass | Is it made of glass? | glass; made of glass; made from glass; transparent; see through it;
    crystal
rubber | Is it made of rubber? | rubber; made of rubber; latex
papermade | Is it made of paper? | paper; made of paper; made from paper; paper product; cardboard
ceramic | Is it made of ceramic? | ceramic; porcelain; made of ceramic; pottery
stonemade | Is it made of stone? | stone; rock; made of stone; made of rock; mineral
liquid | Is it a liquid? | liquid; fluid; wet
water | Does it have to do with water? | water; made of water; contain water; related to water;
    involve water; have to do with water; body of water; in water; near water; in the water
electronic | Is it an electronic device? | electronic; electronics; electronic device; device;
    gadget; technology; appliance; electronic item; tech
electricity | Does it use electricity? | electricity; electric; use electricity; electrical; plug
    in; plugged in; need power; powered by electricity; outlet; need to be charged; run on
    electricity; cord; power source; charge; need electricity
battery | Does it run on batteries? | battery; run on batteries; use batteries; battery powered
screen | Does it have a screen? | screen; display; monitor; show pictures
buttons | | button; press buttons
keys | Does it have a keyboard? | keyboard; have keys; keypad
communicate | Is it used to communicate? | communicate; communication; talk to people; make calls;
    call people; internet; send messages; talk with; phone call; go online
watch | | watch; watch shows; watch movies
photos | Is it used to take pictures? | photo; take pictures; take photos; photograph; photography;
    record video
listen | Is it used to listen to something? | listen; hear; audio
sound | Does it make a sound? | sound; make sound; make a sound; noise; make noise; noisy; loud
heats | Does it get hot? | heat; get hot; warm food; heat up; hot; produce heat; heat food
cold | Is it cold? | cold; keep food cold; cool; freeze; frozen; ice
spins | | spin; rotate; turn around
cleaning | Is it used for cleaning? | clean; cleaning; used to clean; wash; household chore; chore
light | Does it give light? | give light; give off light; light source; produce light; illuminate;
    light up; shine; see in the dark; emit light
instrument | Is it a musical instrument? | instrument; musical instrument; music instrument
music | | music; musical; make music; play music; band; musician; song
strings | Does it have strings? | string; have strings; stringed instrument; string instrument
plucked | Do you pluck its strings? | pluck; strum; pluck the strings; strummed; pluck its strings
bow | | bow; play with a bow
blown | Do you blow into it? | blow; wind instrument; blow into; woodwind; blow into it; use your
    mouth; use your breath
brass | Is it a brass instrument? | brass; brass instrument
struck | Do you play it by hitting it? | percussion; percussion instrument; hit to play; play by
    hitting; play it by hitting it; drumstick; mallet; bang
orchestra | Is it played in an orchestra? | orchestra; symphony; classical music; in an orchestra;
    played in an orchestra
furniture | Is it a piece of furniture? | furniture; piece of furniture; type of furniture;
    furnishing
sit | Do you sit on it? | sit; sit on; seat; sit on it; sit down
sleep | Do you sleep on it? | sleep; sleep on; sleep in; sleep on it; used for sleeping; nap
lie | | lie; lie down; lay on; lay down; lie on it
storage | Is it used to store things? | store; storage; store things; used for storage; put things
    in; keep things in; hold things; shelf; storage space
drawers | | drawer
back | | backrest; have a back; lean back
reflects | | reflect; reflection; see yourself
hangs | Does it hang on a wall or from something? | hang; hang on a wall; hung; on the wall; hang
    on the wall; hang from something; hang up
stationery | Is it an office or school supply? | office supply; office supplies; school supply;
    school supplies; stationery; office item; office or school supply; supplies
write | Is it used to write? | write; writing; used to write; writing utensil; writing tool; write
    with; writing instrument
draws | Is it used to draw? | draw; drawing; used to draw; draw with; color with; sketch
writeon | Do you write on it? | write on; write on it; written on; write in; write in it; take
    notes
ink | Does it use ink? | ink; have ink; contain ink
erases | | erase; remove pencil marks
pages | Does it have pages? | page; have pages; contain pages; contain page
read | Do you read it? | read; reading; text; words on it
sticky | Is it sticky? | sticky; stick; adhesive; stick things together
fastens | Is it used to hold things together? | fasten; hold things together; attach; hold
    together; keep things together; join things; bind; put things together; connect
measure | Is it used to measure? | measure; measurement; measuring; used to measure; length
numbers | Does it have numbers on it? | number; have numbers; numbers on it; numeric; digit; math;
    calculate; count
timekeeping | Does it tell the time? | time; tell time; tell the time; clock; keep time
artistic | Is it related to art? | art; art supply; artistic; used for art; related to art; artist;
    art supplies; artwork; make art; creative; arts and crafts; craft
paints | | paint; paint with; used to paint
decoration | Is it used for decoration? | decoration; decorate; decorative; decor; display piece;
    ornament; ornamental
museum | Could it be in a museum? | museum; gallery
kitchenware | Is it a kitchen tool or a piece of tableware? | kitchen tool; kitchen utensil;
    utensil; tableware; kitchenware; cookware; dish; kitchen item; piece of tableware; silverware;
    cutlery; kitchen gadget
kitchen | Is it usually found in the kitchen? | kitchen; found in the kitchen; found in a kitchen;
    in the kitchen; used in the kitchen; dining room; restaurant
eatwith | Do you eat with it? | eat with; eat with it; used to eat; used for eating; eating
    utensil; use it to eat; used when eating; use when eating
eatfrom | Do you eat from it? | eat from; eat off; eat out of; eat from it; put food on; serve
    food; hold food; put food in; serving food
cookwith | Is it used to cook? | cook; cooking; used to cook; cook with; used for cooking; prepare
    food; used in cooking; food preparation; make food; bake; baking; used to prepare food;
    preparing food; cook food
drinkfrom | Do you drink from it? | drink from; drink out of; drink from it; used for drinking;
    used to drink; drinking
container | Is it a container? | hold liquid; hold water; hold something; put something in it;
    vessel for liquid; hold liquids; carry liquid; a container; used as a container; storage
    container; type of container
lid | | lid; cover
cuts | Is it used to cut? | cut; cutting; used to cut; slice; chop; saw things
sharp | Is it sharp? | sharp; pointy; pointed; sharp edge
blade | Does it have a blade? | blade
bedroom | Is it usually found in a bedroom? | bedroom; in the bedroom; found in a bedroom; found in
    the bedroom
livingroom | Is it usually found in a living room? | living room; in the living room; found in a
    living room; found in the living room
bathroom | Is it usually found in a bathroom? | bathroom; in the bathroom; found in a bathroom;
    found in the bathroom
garage | Is it usually kept in a garage? | garage; in the garage; toolbox; shed; kept in a garage;
    workshop; found in a garage
officeplace | Is it usually found in an office? | office; in an office; found in an office; at
    work; on a desk; workplace; found on a desk; work
school | Is it used in school? | school; in school; student; classroom; in a classroom; education;
    teacher; learn; used in school; used at school
outdoors | Is it usually found outdoors? | outdoors; outside; outdoor; found outside; used outside;
    used outdoors; outdoor activity; found outdoors; out in the open
indoors | Is it usually found indoors? | indoors; inside; indoor; used indoors; found inside; found
    indoors; inside a building; in a building
house | | house; home; found in a house; household; household item; in the home; in a house; around
    the house; found in a home; found in the home; found in most homes; household object; used at
    home; used in the home; inside a house; inside a home; in your house; in your home; found in
    the house; in the house
landscape | | part of the landscape; landform; geographical; geographic feature; geography; scenery
place | Is it a place you can go to? | place; location; place you can go; place you can go to;
    visit; go to; tourist; walk on it; somewhere
sky | Can you see it in the sky? | sky; in the sky; see in the sky; see it in the sky; above us; up
    in the air; high up
weather | | weather; precipitation; fall from the sky; come from the sky
night | | night; at night; nighttime; dark
climbed | | climb; climb it; climb on
ground | | ground; on the ground; dirt; soil; earth
desert | | desert; dry climate
beautiful | | beautiful; pretty; attractive
toy | Is it a toy? | toy; children's toy; kids toy; plaything; toy or game
children | Is it mostly for children? | children; kid; child; for children; for kids; used by
    children; baby; played with by children; play with it as a child; childhood
play | | play; play with; play with it; game; fun; used to play; recreation; leisure;
    entertainment; used for fun; hobby; used in a game; used for entertainment
gameuse | Is it used in board or card games? | board game; card game; gambling; casino; tabletop
    game; board or card games
builds | | build things with; construction toy
pieces | Does it consist of many pieces? | pieces; many pieces; consist of many pieces; multiple
    pieces; assemble; put together
party | | party; birthday; celebration; celebrate
looksperson | | look like a person; human shaped; look like a human; resemble a person
looksanimal | Does it look like an animal? | look like an animal; resemble an animal; animal shaped
playground | Is it found on a playground? | playground; found on a playground; found in a
    playground; in a park; park
jewelry | Is it a piece of jewelry? | jewelry; jewellery; piece of jewelry; jewel
wedding | | wedding; marriage; married; engagement
shiny | | shiny; sparkle; sparkly; glitter
gardening | Is it used in gardening? | gardening; garden tool; garden; used in the garden; in a
    garden; used for gardening; yard; yard work; used in a garden; lawn; used in gardening;
    gardener; garden supply
waters | | water plants; water the plants
dig | Is it used for digging? | dig; digging; used to dig
tool | Is it a tool? | tool; hand tool; used as a tool; implement
tooluse | Is it used for building or repairing things? | hardware; repair; fix; build;
    construction; carpenter; used for building; used to build; building or repairing things; fix
    things; used in construction; repairing things; build things; carpentry; build or fix things;
    woodworking
turns | Is it used for turning something? | turn; twist; used to turn; tighten; loosen; turning
    something
hits | Is it used to hit something? | hit; used to hit; strike; pound; hit something; swing it
grips | | grip; grab; squeeze
handle | Does it have a handle? | handle; have a handle
handheld | Do you hold it in your hand when you use it? | handheld; hand held; hold it when you use
    it; use with your hands; use your hands; held; hold it; hold it in your hand when you use it
portable | Is it portable? | portable; carry; carry it; carry around; carry with you; carry it
    around; easy to carry; move it easily; carry it with you; take it with you; mobile
sport | Is it sports equipment? | sport; sports equipment; used in sports; sporting; athletic; used
    in a sport; used for sports; athlete; exercise; sporting goods; olympics; related to sports;
    used to play a sport; used to play sports; played with in sports; physical activity; sporting
    equipment
ball | Is it a ball? | ball
team | Is it used in a team sport? | team; team sport; used in a team sport; teammates
thrown | Do you throw it? | throw; thrown; throw it; catch
kicked | Do you kick it? | kick; kicked; kick it
bounces | Does it bounce? | bounce; bouncy
hitwith | Is it hit with a racket, bat or club? | hit with; racket bat or club; hit with a racket
    bat or club; hit with a bat; hit with a club; hit with a racket
standon | Do you stand on it? | stand on; stand on it; stand
round | Is it round? | round; sphere; spherical; circular; circle; round shape; ball shaped; round
    in shape
long | Is it long and thin? | long; thin; long and thin; narrow; skinny; cylindrical; elongated;
    slender; stick shaped
flat | Is it flat? | flat; flat surface; thin and flat
tall | Is it tall? | tall; high
soft | Is it soft? | soft; squishy; squeeze it; !hard; !solid object; comfortable; cushiony; !rigid
hollow | | hollow; empty inside
heavy | Is it heavy? | heavy; weigh a lot; !light; !lightweight; weigh more than 50 pounds
fragile | Does it break easily? | fragile; break easily; breakable; delicate; break if you drop it;
    shatter; easily broken
expensive | Is it expensive? | expensive; cost a lot; costly; valuable; luxury; cost more than 100;
    !cheap; !inexpensive; high price; worth a lot of money
drinkable | | drink it; drinkable; beverage
windows | | window
spiky | | spike; spiky; thorn; prickly; spine
pedals | | pedal
salt | Is it salty? | salt; salt water; salty
military | | military; army; navy; war
beak | | beak
royal | | king; queen; royal; royalty
door | Does it have a door? | door; have a door
lens | | lens
folded | | fold
moving | | move; moves; moves by itself; move on its own; motion; fast; mobile on its own; speed
machine | Is it a machine? | machine; mechanical; machinery; moving parts; mechanism; complex;
    complicated
big | Is it bigger than a person? | big; large; huge; enormous; giant; gigantic; massive
little | Does it fit in a pocket? | small; tiny; little; in your pocket; in a pocket; miniature;
    palm of your hand; small in size; compact; does it fit in a pocket
inhand | Can you hold it in one hand? | hold in one hand; hold it in one hand; one hand; held in
    one hand; hold with one hand; hold it with one hand; pick it up with one hand; picked up with
    one hand; hold in your hand; hold it in your hand; held in the hand; held in your hand; hold in
    your hands
liftable | Can one person lift it? | lift; lift it; one person lift; pick it up; pick up; person
    lift it; picked up
object | | physical object; tangible; touch; touch it; solid; physical; visible; see it
household | | everyday; every day; used every day; daily; used daily; common household item; used
    in the house every day; everyday life; use every day; everyday object; daily basis; used in
    everyday life; used on a daily basis; use it every day; regularly
person | | is it a person; is it a human; is it a human being; is it human; fictional character;
    famous person; real person; profession
"""

FILLERS = frozenset(
    """
    a about all also am an any anything are as at be been being by called can could common commonly
    considered do does done each either else ever everyone find for found frequently from general
    generally get gets given going has have having hear how i if in into involve involved involves
    is it its itself just keep kept kind kinds known like likely made mainly make makes many may
    maybe me mean means might more most mostly much my name named normal normally of often on one
    ones or order our out over particular perhaps piece pieces possible possibly primarily primary
    probably purpose quite really see seen should so some someone somebody something sometimes
    somewhere sort sorts specific specifically still such than that the their them then there these
    they thing things think thinking this those to together too type types typical typically up us
    use used uses using usual usually variety very was way we well were what when where which while
    who will with within would you your yourself object item guess answer word secret right correct
    category class belong belongs group associated related contain contains consist consists
    example etc okay ok so now hmm please tell part form
    and but also both non not no never without isnt arent doesnt dont cant cannot
    shape shaped color colour colored coloured size sized
    average standard regular single own other people humans human person person's peoples
    during after before between through around near
    """.split()
)


@cache
def rows() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Returns (trait, question or "", phrases) for each trait."""
    return read_rows(TRAITS)
