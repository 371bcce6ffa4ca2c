"""Questions about the traits of `cities`, and phrases that refer to them.

An entry: the trait | the question of the expert and the menu, if any | phrases, matched by their
stems. A phrase after "!" has the opposite meaning. Traits without an entry, and all names, are
recognised literally.
"""

from __future__ import annotations

from functools import cache

from agentgym.envs.lmrl.phrases import read_rows

TRAITS = """
capital | Is your city the capital of its country? | capital; capital city; national capital; seat
    of government; seat of the national government
not_capital | | not the capital
state_capital | Is your city the capital of a state or province? | state capital; provincial
    capital; regional capital; capital of the state; capital of the province; capital of a state;
    capital of a province; capital of its state; capital of its province; capital of the region;
    capital of a state or province; administrative capital of the province; administrative center
    of the province
former_capital | Was your city once the capital of its country? | former capital; ancient capital;
    once the capital; previously the capital; old capital; used to be the capital; historical
    capital; capital in the past
former_imperial | Was your city once the capital of an empire? | imperial capital; capital of an
    empire; ancient capital of china; dynasty; dynasties; capital of several dynasties
largest | Is your city the largest city of its country? | largest city; biggest city; most populous
    city; largest city in the country; largest city of its country; most populated city; largest;
    most populous; biggest; largest metropolis; the largest
second | Is your city the second largest city of its country? | second largest; second largest
    city; second biggest; second most populous; second biggest city
big | Do more than five million people live in your city? | megacity; metropolis; large population;
    densely populated; big city; large city; major city; metropolitan area; high population; high
    population density; populous; heavily populated; one of the largest cities; one of the most
    populous cities; overcrowded; !small city; !small town; !town
northern_hemisphere | Is your city in the northern hemisphere? | northern hemisphere; north of the
    equator
southern_hemisphere | | southern hemisphere; south of the equator
eastern_hemisphere | | eastern hemisphere
western_hemisphere | Is your city in the western hemisphere? | western hemisphere
near_equator | Is your city close to the equator? | equator; near the equator; close to the
    equator; equatorial; on the equator
north | Is your city in the north of its country? | north; northern; northern part; northern
    region; up north; northern half; northernmost
south | Is your city in the south of its country? | south; southern; southern part; southern
    region; southern half; southernmost
east | Is your city in the east of its country? | east; eastern; eastern part; eastern region;
    eastern side; eastern half; easternmost
west | Is your city in the west of its country? | west; western; western part; western region;
    western side; western half; westernmost
central | Is your city in the center of its country? | central; center; middle; heart; central
    part; interior; centre
northwest | | northwest; northwestern; north west; north western
northeast | | northeast; northeastern; north east; north eastern
southwest | | southwest; southwestern; south west; south western
southeast | | southeast; southeastern; south east; south eastern
coast | Is your city on the coast? | coast; coastal; seaside; sea; ocean; coastline; seafront; on
    the coast; by the sea; coastal city; near the ocean; near the sea; waterfront; near the coast;
    close to the coast; on the coast of; coastal area; coastal region; !landlocked
island | Is your city on an island? | island; on an island; island nation; island country
port | Does your city have an important port? | port; port city; seaport; shipping; maritime;
    naval; harbour city; major port; trading port
harbor | Does your city have a famous natural harbor? | harbor; harbour; natural harbor
bay | Does your city lie on a bay? | bay; gulf
beach | Is your city known for its beaches? | beach; beaches; sandy; sunbathe; surfing
river | Is your city on a major river? | river; riverside; riverbank; banks of a river; river bank;
    on a river; major river; along a river; bank of; banks of the; on the bank; on the banks of;
    riverfront
lake | Is there a large lake in or beside your city? | lake; near a lake; lakeside
lagoon | | lagoon
canals | Is your city known for its canals? | canal; waterways
delta | Is your city in a river delta? | delta; river delta
water | Is your city near a large body of water? | body of water; water; large body of water; near
    water; near a body of water; river or sea; major body of water; bodies of water
mountains | Are there mountains in or around your city? | mountain; mountainous; mountain range;
    surrounded by mountains; mountainous region; near mountains; highland; surrounded by hills or
    mountains; mountains or natural landmarks; rock formation; peak
hills | Is your city built on hills? | hill; hilly; hills
altitude | Is your city at a high altitude? | altitude; high altitude; elevation; high elevation;
    above sea level; high above sea level; high plateau
plateau | | plateau
valley | Is your city in a valley? | valley; in a valley; basin
desert | Is your city in or near a desert? | desert
volcano | Is there a volcano near your city? | volcano; volcanic; active volcano
earthquake | Has your city suffered strong earthquakes? | earthquake; earthquakes; seismic; fault
    line; ring of fire
tropical | Is the climate of your city tropical? | tropical; tropical climate; tropics; rainforest
subtropical | | subtropical
monsoon | Does your city have a monsoon season? | monsoon; rainy season; monsoon season; heavy rain
arid | Is the climate of your city dry? | arid; dry; dry climate; arid climate; little rain; semi
    arid
temperate | Is the climate of your city temperate? | temperate; temperate climate; oceanic climate;
    four seasons; four distinct seasons
continental | | continental; continental climate
humid | Is the climate of your city humid? | humid; humidity
hot | Are the summers in your city very hot? | hot; high temperatures; hot summers; extreme heat;
    scorching; hot climate; very hot
warm | Is it warm in your city most of the year? | warm; warm climate; warm weather; warm all year;
    sunny; sunshine
mild | Is the climate of your city mild all year? | mild; pleasant; mild climate; pleasant climate;
    moderate climate; pleasant weather; spring like; moderate
cold | Are the winters in your city very cold? | cold; freezing; cold winters; cold climate; below
    freezing; harsh winter; chilly; cold weather
snow | Does it snow in your city in winter? | snow; snowy; snowfall; heavy snow
rainy | Is your city known for rainy weather? | rainy; rain; rainfall; rains a lot
fog | Is your city known for fog? | fog; foggy
finance | Is your city a major financial center? | finance; financial; financial center; financial
    hub; stock exchange; banking; business center; commercial center; economic center; business
    hub; economic hub; commerce; financial district; commercial hub; business; trade and business
industry | Is your city an industrial center? | industry; industrial; factories; factory;
    industrial center; manufacturing hub; manufacturing; heavy industry
automobile | Is your city known for making cars? | automobile; car manufacturing; automotive;
    automobile industry; cars; automotive industry; car industry
textile | Is your city known for textiles? | textile; textile industry; cotton; cloth; clothing;
    garment; silk; fabric
tech | Is your city a center of information technology? | technology; tech; it industry;
    information technology; tech hub; software; high tech; startups; technological; technology hub;
    innovation; technological advancements; innovative
oil | Is your city important for the oil business? | oil; petroleum; oil industry; oil and gas;
    energy
mining | Is your city known for mining? | mining; mine; minerals
trade | | trade; trading; trade fair; merchants
film | Is your city known for making films? | film; movie; film industry; cinema; movie industry;
    film production; entertainment industry
film_festival | | film festival
fashion | Is your city known for fashion? | fashion; fashion industry; haute couture
theatre | Is your city known for its theatres? | theatre; theater; plays
opera | Is your city known for opera? | opera; opera house famous
classical_music | | classical music; composer; symphony
music | Is your city known for its music? | music; musical; music scene; vibrant music scene;
    bands; live music; musicians
nightlife | Is your city known for its nightlife? | nightlife; vibrant nightlife; clubs; bars;
    party; night life; nightlife scene; nightlife and entertainment
carnival | Is your city known for its carnival? | carnival; parade
football | Is your city known for a football club? | football; soccer; football club; football
    team; soccer team
olympics | Has your city hosted the Olympic Games? | olympic; olympics; olympic games; hosted the
    olympics; hosted the olympic games; summer olympics
museum | Is your city known for its museums? | museum; museums; art museums; galleries; art gallery
university | Is your city known for its universities? | university; universities; college;
    education; students; educational institutions; higher education; academic; educational
literature | | literature; writer; author; literary
skyscrapers | Is your city known for its skyscrapers? | skyscraper; skyline; tall buildings; high
    rise; iconic skyline; modern skyline; tallest building; impressive skyline; high rise buildings
modern | | modern; futuristic; modern architecture; modern buildings; contemporary; modernist;
    modern infrastructure
tower | Is your city known for a tower? | tower; television tower; tv tower; observation tower;
    observation deck
bridges | Is your city known for its bridges? | bridge; bridges; suspension bridge
palace | Is your city known for a palace? | palace; royal residence
castle | Is your city known for a castle? | castle
fort | Is your city known for a fort? | fort; fortress; citadel; defensive
walls | Is your city known for its old walls? | wall; walled; city walls; city wall; ancient walls;
    walled city; fortification
royal | Have kings or emperors lived in your city? | royal; royal family; king; monarchy;
    emperor; queen; royalty
temples | Is your city known for its temples? | temple; temples; shrine
mosque | Is your city known for its mosques? | mosque; mosques; islamic architecture
cathedral | Is your city known for its cathedral? | cathedral
church | | church; basilica; churches
orthodox | | orthodox
pagoda | | pagoda
monastery | | monastery
worship | | place of worship; religious building; religious buildings; religious site; religious
    sites; religious monuments; houses of worship; synagogue
religious | Is your city a religious center? | religious; holy; sacred; spiritual; religious
    significance; religious center; holy city; pilgrimage; religious city; pilgrims; religious
    importance
ancient | Is your city known for its ancient history? | ancient; ancient history; antiquity;
    archaeological; archaeology; ancient civilization; archaeological site; thousands of years;
    ancient ruins; oldest
ruins | | ruin; ruins
pyramids | | pyramid
empire | Was your city the center of an empire? | empire
colonial | Is your city known for its colonial architecture? | colonial; colonial architecture;
    colony; colonial history; colonial era; colonized; colonial past; spanish colonial; colonial
    buildings; historical colonial architecture; colonial rule
european_style | | european style; european architecture; european influence
medieval | | medieval; middle ages
war_history | Is your city known for its role in a war? | war; war history; battle; world war;
    world war ii; second world war; bombed; conflict
communism | | communism; communist; socialist; soviet
planned | Was your city built to a plan? | planned city; planned; built from scratch; purpose
    built; built to a plan
politics | | politics; political; political center; government; parliament
street_art | Is your city known for its street art? | street art; graffiti; mural; vibrant street
    art; murals
market | Is your city known for its markets? | bazaar; traditional market; street market; famous
    market; souk; markets; market; open air markets; marketplace
shopping | Is your city known for shopping? | shopping; mall; shop; shopping malls; luxury shopping
street_food | Is your city known for its street food? | street food; food stalls; hawker; night
    market
seafood | Is your city known for its seafood? | seafood; fish; fishing
spicy | Is your city known for spicy food? | spicy; hot pot; spice; chili; spicy food; spicy
    cuisine; spices
dim_sum | | dim sum
pizza | | pizza
coffee | Is your city known for coffee? | coffee; coffee production; coffee culture; coffee beans
tea | | tea; tea production; tea plantations
beer | Is your city known for beer? | beer; brewery; breweries
wine | Is your city known for wine? | wine; vineyards; wine production
meat | | meat; steak; barbecue; beef
chocolate | | chocolate
flowers | Is your city known for flowers? | flower; flowers; floral; roses; tulip
gardens | Is your city known for its gardens? | garden; gardens; botanical garden; botanical
subway | Does your city have a large subway? | subway; metro system; extensive metro
trams | | tram; streetcar
cable_car | | cable car; gondola lift
bicycles | Is your city known for cycling? | bicycle; cycling; bike
traffic | Is your city known for heavy traffic? | traffic; traffic jams; congestion; traffic
    congestion; congested; crowded; crowded streets
pollution | Is your city known for air pollution? | pollution; smog; polluted; air pollution; air
    quality
expensive | Is your city an expensive place to live? | expensive; high cost of living; cost of
    living; luxury; wealthy; rich; real estate
immigrants | | multicultural; immigrant; diverse population; diversity; diverse; melting pot;
    ethnic diversity; multicultural population
gambling | | gambling; casino; casinos
hot_springs | | hot spring; hot springs; onsen; thermal; spa; thermal baths; bath; spas
canyon | | canyon
two_continents | | two continents; both europe and asia; europe and asia; straddle;
    transcontinental; spans two continents
any | | culture; cultural; heritage; historical; historic; history; landmark; landmarks; monument;
    monuments; attraction; attractions; tourist; tourism; cuisine; food; dish; dishes; culinary;
    gastronomy; festival; festivals; art; arts; architecture; architectural; tradition; traditions;
    traditional; vibrant; entertainment; park; parks; site; sites; crafts; handicrafts; sports;
    transportation; visit; visited; significance; events; event; celebration; square; building;
    buildings; specialty; delicacies; restaurant; urban; sport; scene; unesco; world heritage;
    statue; dance; dancing; specific industries; specific industry; economic activities; economic
    activity; economy; economic; destination; scenery; natural beauty; public transportation;
    transportation system; historical figures; figure; personality; leader; wonder; theme park;
    amusement park; airport; street life; natural landmarks; performance; exhibition; international
    airport; geographical features; natural features; performing; puppetry; sporting; entertainment
    options; options; performing arts; outdoor activities; activities; street; strict laws; hotel;
    resort
mediterranean_climate | Does your city have a mediterranean climate? | mediterranean climate
"""

FILLERS = frozenset(
    """
    lived a about all along also am among an and any anything are area areas around as at based be
    been being belong both but by called can center centers certain characterized cities city
    close closer come common commonly considered country countrys could currently designated do
    does each either especially etc ever every extensive famous famously feature features find
    for from found general generally geographically going good had has have having home
    hometown host hosts hosted i iconic if impressive in important include including influence
    influenced information into is it its just key kind kinds known large like likely little
    live lives living local locate located location lot main mainly major make makes many may
    me mean might more most mostly much my name named nation nations near nearby new next nice
    no non normal not notable now number of official often ok okay old on one ones only or
    original other our out over overall part particular particularly people perhaps place play
    please popular popularly population possible possibly predominant predominantly
    predominately present primarily primary prominent province provide quite region regional
    region's rich role said same see serve serves several side significant significantly
    situated so some something sometimes somewhere specific specifically spoken speak state
    states still strong such surrounded tell than that the their them there these they thing
    think this those to today together town type types typical typically unique use used using
    usually various very was way well were what when where which while widely will with within
    world worldwide would year years you your yourself district department city's metropolitan
    language languages speaking speakers religion currency majority continent climate weather
    hold experience experiences boast boasts offer offers renowned recognized annual annually
    flowing flow flows through running run runs crossing crossings street streets efficient
    system systems network institution institutions production product products produce
    produces birthplace quality shore shores brand brands sector hub development atmosphere
    panoramic view views destinations natural landscape landscapes scenic developed extremely
    youre im ive former sovereign entirely associated played plays showcase showcases exist
    exists originated origin originating date dating dates back century centuries built grew
    born raised takes take taking locals resident residents visitors attracts attract draw
    draws incorporates incorporating featuring blend combination mix mixture design elements
    style styles tall high numerous hosting house houses housing prefecture buses cleanliness
    outdoor connects stretches reflected shaped shape crystal clear colored colorful buildings
    guess answer correct right question renown abundance presence variety range bustling lively
    beautiful well-known famed border borders bordering borderline across international summer
    summers winter winters lie lies suffered making heavy beside spend season seasons
    """.split()
)


@cache
def rows() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Returns (trait, question or "", phrases) for each trait with an entry."""
    return read_rows(TRAITS)
