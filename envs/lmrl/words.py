"""Common five-letter English words: the default vocabulary of Wordle."""

from __future__ import annotations

COMMON: tuple[str, ...] = tuple(
    """
about above actor adapt admit adult after again agent agree ahead alarm album alert alike alive
allow alone along aloud alter amaze among amuse angel anger angle angry ankle apart apple apply
arena argue arise armor array arrow aside asked asset atlas avoid awake award aware awful bacon
badge baker basic basis beach beans beard beast began begin being bells below bench berry birds
birth black blade blame blank blaze blend bless blind blink block blood bloom blown board boats
bones bonus books boost boots bored bound bowls boxes brain brake brand brave bread break breed
brick bride brief bring broad broke brook broom brown brush build built bunch bunny burnt burst
buyer cabin cable cakes camel candy canoe cards cargo carry catch cause chain chair chalk charm
chart chase cheap check cheek cheer chess chest chick chief child chill choir chose civic claim
class clean clear clerk click cliff climb clock close cloth cloud clown coach coast coats color
comet comic coral cords cough could count court cover crack craft crane crash crawl crazy cream
creek crime crisp cross crowd crown cruel crumb crush crust curve cycle daily dairy dance dated
dealt death decay delay depth desks devil diary dirty ditch doing donor doubt dozen draft drain
drama drank drawn dream dress dried drift drill drink drive drops drove drums ducks dusty eager
eagle early earth easel eaten edges eight elbow elder elect email empty enemy enjoy enter entry
equal error essay event every exact exist extra fable faces faint fairy faith false fancy farms
fault favor feast fence ferry fetch fever fewer field fiery fifth fifty fight films final first
flame flash fleet flesh flies float flock flood floor flour fluid flute focus foggy folks force
forge forks forty found frame fresh fried front frost fruit fully funny games gates gauge ghost
giant gifts given glass globe gloom glory glove goats going goods goose grace grade grain grand
grant grape graph grass grave great greed green greet grief grill group grown guard guess guest
guide guilt habit hairy handy happy hardy harsh haste hatch haven heart heavy hedge hello hinge
hobby homes honey honor hoped horns horse hotel hours house human humid humor hurry ideal image
index inner input issue ivory jeans jelly jewel joint jokes judge juice juicy jumbo jumps kayak
keeps kings kiosk kites kneel knife knock known koala label labor ladle lakes lamps large laser
later laugh layer learn lease least leave ledge lemon level lever light limit linen lions lists
liver local lodge logic loose lorry loved lover lower loyal lucky lunch lungs lying magic major
maker march marry match maybe mayor meals means meant medal melon mercy merit merry metal meter
midst might miles minor minus mixed model moist money month moral motor mount mouse mouth moved
movie muddy music nails naked names nasty naval needs nerve never newer newly night ninth noble
noise north noted novel nurse nylon oasis ocean offer often olive onion opera orbit order organ
other otter ought ounce outer owner pages paint pairs panda panel panic paper party pasta paste
patch pause peace peach pearl pedal penny phone photo piano piece pilot pinch pipes pitch pizza
place plain plane plant plate plaza plead plumb point polar porch pound power press price pride
prime print prize proof proud prove pulse punch pupil puppy purse queen quest quick quiet quilt
quite quota quote radio rains raise ranch range rapid ratio reach react ready realm rebel refer
relax repay reply rider ridge rifle right rings risky river roads roast robin robot rocks rocky
roman roots ropes rough round route royal rugby ruler rural sadly safer saint salad sales salty
sandy sauce scale scarf scary scene scent score scout scrap screw seeds seven shade shake shame
shape share shark sharp sheep sheet shelf shell shift shine shiny ships shirt shock shoes shoot
shops shore short shout shown sight silly since siren sixth sixty skate skill skirt skull sleep
slice slide slope small smart smell smile smoke snack snail snake sneak solar solid solve songs
sorry sound south space spare spark speak speed spell spend spice spicy spike spill spine spoke
spoon sport spray squad stack staff stage stain stair stamp stand stars start state steak steal
steam steel steep stems stick stiff still sting stock stone stood stool store storm story stove
straw strip stuck study stuff style sugar suits sunny super surge swamp swarm sweat sweep sweet
swept swift swing sword table taken tales talks tasks taste teach teams tears teeth tempo tenth
thank theft their theme there these thick thief thigh thing think third thorn those three threw
throw thumb tiger tight tiles timer tired title toast today token tooth topic torch total touch
tough tower towns track trade trail train trait treat trees trend trial tribe trick tried truck
truly trunk trust truth tulip tummy tunes tutor twice twins twist ultra uncle under union unite
unity until upper upset urban urged usage usual vague valid value valve vapor vault verse video
views villa vines virus visit vital vivid vocal voice voter wages wagon waist walls waste watch
water waved weary weeds weigh weird whale wheat wheel where which while white whole whose wider
widow width winds wings witch wives woman women woods woody world worms worry worse worst worth
would wound wrist write wrong wrote yacht yeast yield young youth zebra zesty
""".split()
)
