"""The cities of GuessMyCity and facts about them, from general knowledge.

- A country: its name and synonyms | continent | regions | languages | currency | main religion.
- A city: its name and other names | country | latitude longitude, in whole degrees | population
  in millions, approximately | traits, worded in `city_questions` | names that belong to it, such
  as its province, waters and sights.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

COUNTRIES = """
united states;usa;us;america;american;united states of america | north america | | english | dollar
    | christianity
canada;canadian | north america | | english; french | dollar | christianity
mexico;mexican | north america | latin america | spanish | peso | christianity
cuba;cuban | north america | caribbean; latin america | spanish | peso | christianity
jamaica;jamaican | north america | caribbean | english | dollar | christianity
panama;panamanian | north america | central america; latin america | spanish | balboa |
    christianity
colombia;colombian | south america | latin america | spanish | peso | christianity
venezuela;venezuelan | south america | latin america | spanish | bolivar | christianity
ecuador;ecuadorian | south america | latin america | spanish | dollar | christianity
peru;peruvian | south america | latin america | spanish | sol | christianity
bolivia;bolivian | south america | latin america | spanish | boliviano | christianity
chile;chilean | south america | latin america | spanish | peso | christianity
argentina;argentinian;argentine | south america | latin america | spanish | peso | christianity
uruguay;uruguayan | south america | latin america | spanish | peso | christianity
brazil;brazilian | south america | latin america | portuguese | real | christianity
united kingdom;uk;britain;great britain;british | europe | western europe; northern europe; british
    isles | english | pound | christianity
ireland;irish | europe | western europe; northern europe; british isles | english | euro |
    christianity
france;french republic | europe | western europe | french | euro | christianity
spain;spanish kingdom | europe | southern europe; western europe; iberian peninsula | spanish |
    euro | christianity
portugal | europe | southern europe; western europe; iberian peninsula | portuguese | euro |
    christianity
italy | europe | southern europe; western europe | italian | euro | christianity
germany | europe | western europe; central europe | german | euro | christianity
austria;austrian | europe | central europe; western europe | german | euro | christianity
switzerland;swiss | europe | central europe; western europe | german | swiss franc | christianity
belgium;belgian | europe | western europe | french; dutch | euro | christianity
netherlands;holland | europe | western europe | dutch | euro | christianity
denmark | europe | northern europe; scandinavia; nordic | danish | krone | christianity
sweden | europe | northern europe; scandinavia; nordic | swedish | krona | christianity
norway | europe | northern europe; scandinavia; nordic | norwegian | krone | christianity
finland | europe | northern europe; nordic | finnish | euro | christianity
poland | europe | eastern europe; central europe | polish | zloty | christianity
czech republic;czechia | europe | eastern europe; central europe | czech | koruna | christianity
hungary | europe | eastern europe; central europe | hungarian | forint | christianity
romania | europe | eastern europe; balkans | romanian | leu | christianity
greece | europe | southern europe; balkans | greek | euro | christianity
ukraine | europe | eastern europe; former soviet union | ukrainian | hryvnia | christianity
russia;russian federation | europe | eastern europe; former soviet union; eurasia | russian | ruble
    | christianity
turkey;turkiye | asia | middle east; western asia; eurasia | turkish | lira | islam
egypt;egyptian | africa | north africa; northern africa; middle east; arab world | arabic | pound |
    islam
morocco;moroccan | africa | north africa; northern africa; arab world; maghreb | arabic | dirham |
    islam
tunisia;tunisian | africa | north africa; northern africa; arab world; maghreb | arabic | dinar |
    islam
nigeria;nigerian | africa | west africa; western africa; sub saharan africa | english | naira |
    christianity
ghana;ghanaian | africa | west africa; western africa; sub saharan africa | english | cedi |
    christianity
senegal;senegalese | africa | west africa; western africa; sub saharan africa | french | cfa franc
    | islam
ivory coast;cote divoire;ivorian | africa | west africa; western africa; sub saharan africa |
    french | cfa franc | christianity
kenya;kenyan | africa | east africa; eastern africa; sub saharan africa | english; swahili |
    shilling | christianity
ethiopia;ethiopian | africa | east africa; eastern africa; sub saharan africa; horn of africa |
    amharic | birr | christianity
congo;democratic republic of the congo;drc;democratic republic of congo;congolese | africa |
    central africa; sub saharan africa | french; lingala | cfa franc | christianity
south africa;south african | africa | southern africa; sub saharan africa | english; afrikaans |
    rand | christianity
israel;israeli | asia | middle east; western asia | hebrew; arabic | shekel | judaism
united arab emirates;uae;emirates;emirati | asia | middle east; western asia; arab world; gulf
    states; arabian peninsula | arabic | dirham | islam
saudi arabia;saudi | asia | middle east; western asia; arab world; gulf states; arabian peninsula |
    arabic | riyal | islam
iraq;iraqi | asia | middle east; western asia; arab world | arabic | dinar | islam
iran;iranian;persia | asia | middle east; western asia | persian | rial | islam
afghanistan;afghan | asia | central asia; south asia | pashto; persian | afghani | islam
pakistan;pakistani | asia | south asia; southern asia; indian subcontinent | urdu | rupee | islam
india | asia | south asia; southern asia; indian subcontinent | hindi; english | rupee | hinduism
bangladesh;bangladeshi | asia | south asia; southern asia; indian subcontinent | bengali | taka |
    islam
nepal;nepalese;nepali country | asia | south asia; southern asia; indian subcontinent; himalayas |
    nepali | rupee | hinduism
sri lanka;sri lankan | asia | south asia; southern asia; indian subcontinent | sinhala; tamil |
    rupee | buddhism
myanmar;burma | asia | southeast asia; south east asia | burmese | kyat | buddhism
thailand | asia | southeast asia; south east asia | thai | baht | buddhism
vietnam | asia | southeast asia; south east asia | vietnamese | dong | buddhism
singapore republic | asia | southeast asia; south east asia | english; chinese; malay; tamil |
    dollar | buddhism
malaysia;malaysian | asia | southeast asia; south east asia | malay | ringgit | islam
indonesia | asia | southeast asia; south east asia | indonesian | rupiah | islam
philippines;philippine;filipino | asia | southeast asia; south east asia | tagalog; english | peso
    | christianity
china;mainland china;peoples republic of china | asia | east asia; eastern asia | chinese | yuan |
    buddhism
taiwan;taiwanese | asia | east asia; eastern asia | chinese | dollar | buddhism
japan | asia | east asia; eastern asia | japanese | yen | buddhism
south korea;republic of korea | asia | east asia; eastern asia; korean peninsula | korean | won |
    buddhism
north korea | asia | east asia; eastern asia; korean peninsula | korean | won | none
mongolia | asia | east asia; eastern asia; central asia | mongolian | tugrik | buddhism
uzbekistan;uzbekistani | asia | central asia; former soviet union | uzbek | som | islam
australia;australian | oceania | australia and oceania | english | dollar | christianity
new zealand | oceania | australia and oceania | english; maori | dollar | christianity
"""

CITIES = """
new york;new york city;nyc | united states | 41 -74 | 8.4 | coast east largest island port
    skyscrapers finance theatre fashion immigrants bridges nightlife film museum subway expensive
    snow tourism | new york state; manhattan; statue of liberty; central park; empire state
    building; hudson; broadway; times square; atlantic; brooklyn; wall street; big apple;
    northeastern united states; yankee stadium; rockefeller; hamptons; statue
los angeles;la | united states | 34 -118 | 3.9 | coast west second beach film port
    mediterranean_climate mountains nightlife music olympics traffic expensive | california;
    hollywood; pacific; disneyland; griffith observatory; city of angels; southern california;
    beverly hills; getty; santa monica
chicago | united states | 42 -88 | 2.7 | inland north central lake river cold snow wind skyscrapers
    finance industry music university museum | illinois; lake michigan; great lakes; midwest;
    willis tower; millennium park; cloud gate; windy city; deep dish pizza; third most populous;
    third largest; bulls
houston | united states | 30 -95 | 2.3 | south hot humid subtropical oil space industry port
    medicine flat | texas; gulf of mexico; nasa; space center; johnson space center; texan; space
    city; rodeo; texas medical center; oil capital
san francisco | united states | 38 -122 | 0.9 | coast west bay hills tech bridges earthquake fog
    mild port expensive | california; golden gate bridge; alcatraz; pacific; silicon valley;
    chinatown; golden gate
miami | united states | 26 -80 | 0.4 | coast south east beach tropical hot humid nightlife
    immigrants port latin | florida; atlantic; everglades; little havana; art deco; south beach
washington;washington dc;dc | united states | 39 -77 | 0.7 | capital east inland river planned
    museum monuments politics | white house; capitol; potomac; lincoln memorial; smithsonian;
    district of columbia
boston | united states | 42 -71 | 0.7 | coast north east state_capital university historic port
    cold snow medicine | massachusetts; harvard; atlantic; new england; fenway park; freedom trail;
    tea party
las vegas;vegas | united states | 36 -115 | 0.6 | inland west desert arid hot gambling nightlife |
    nevada; mojave; the strip; hoover dam; grand canyon
honolulu | united states | 21 -158 | 0.4 | coast island west beach tropical volcano state_capital
    port | hawaii; waikiki; pearl harbor; pacific; oahu
toronto | canada | 44 -79 | 2.8 | inland lake east largest state_capital cold snow skyscrapers
    finance immigrants film tower | ontario; cn tower; lake ontario; great lakes; niagara falls;
    niagara; royal ontario; rogers; maple
montreal | canada | 46 -74 | 1.8 | inland island river east second cold snow university festivals
    french_culture bilingual church olympics port | quebec; saint lawrence; mount royal; notre dame
    basilica
vancouver | canada | 49 -123 | 0.7 | coast west mountains port mild rainy film olympics skyscrapers
    beach immigrants expensive | british columbia; pacific; stanley park
mexico city;ciudad de mexico | mexico | 19 -99 | 9.2 | capital largest inland central mountains
    altitude colonial ruins museum cathedral earthquake volcano mild olympics traffic pollution
    food street_food | aztec; zocalo; tenochtitlan; frida kahlo; chapultepec; teotihuacan; national
    palace; metropolitan cathedral; diego rivera; templo mayor; xochimilco; valley of mexico;
    palacio de bellas artes; tacos
guadalajara | mexico | 21 -103 | 1.4 | inland west state_capital altitude second colonial cathedral
    music tech mild | jalisco; mariachi; tequila
havana;havanna;la habana | cuba | 23 -82 | 2.1 | capital largest coast island north colonial
    tropical music port classic_cars fort beach hot humid | malecon; caribbean sea; old havana;
    rum; gulf of mexico; el morro; salsa; cuban revolution; fidel castro; ernest hemingway;
    hemingway; caribbean; cigar; capitol; che guevara
kingston | jamaica | 18 -77 | 0.7 | capital largest coast island south tropical music port
    mountains harbor hot | reggae; bob marley; blue mountains; caribbean sea
panama city | panama | 9 -80 | 0.9 | capital largest coast tropical port skyscrapers finance canals
    hot humid rainy | panama canal; pacific
bogota | colombia | 5 -74 | 7.7 | capital largest inland central mountains altitude mild colonial
    street_art coffee museum rainy emeralds university | andes; monserrate; gold museum; la
    candelaria; cundinamarca; ajiaco; botero museum; savanna
medellin | colombia | 6 -76 | 2.5 | inland northwest second mountains valley state_capital mild
    flowers fashion textile coffee cable_car street_art altitude | antioquia; andes; botero; aburra
    valley; eternal spring; metrocable; aburra; pablo escobar
cali;santiago de cali | colombia | 3 -77 | 2.2 | inland west south state_capital mountains valley
    tropical hot music dance sugar river coffee | valle del cauca; salsa; cauca; andes; cristo rey
caracas | venezuela | 10 -67 | 2.0 | capital largest north valley mountains tropical mild oil
    cable_car coffee | simon bolivar; avila; el avila; caribbean; caribbean sea; caribbean coast;
    miranda; angel falls
quito | ecuador | 0 -78 | 1.9 | capital inland north mountains altitude colonial volcano mild
    church | andes; pichincha; equator monument; mitad del mundo
guayaquil | ecuador | -2 -80 | 2.7 | coast largest west port river tropical hot humid industry |
    guayas; pacific; malecon; cerro santa ana; malecon 2000; galapagos; las penas; santa ana hill
lima | peru | -12 -77 | 9.7 | capital largest coast west colonial port arid mild seafood cathedral
    fog ruins | pacific; miraflores; ceviche; inca; huaca pucllana; historic center; nazca; machu
    picchu; peruvian coast
la paz | bolivia | -16 -68 | 0.8 | capital inland west mountains altitude cold cable_car market
    valley colonial | andes; illimani; witches market; teleferico
santiago;santiago de chile | chile | -33 -71 | 6.2 | capital largest inland central mountains
    valley river mediterranean_climate wine finance skyscrapers earthquake | andes; mapocho; san
    cristobal; costanera; la moneda; san cristobal hill; central valley
buenos aires | argentina | -35 -58 | 3.1 | capital largest coast east river port theatre opera
    dance music football temperate meat european_style | tango; rio de la plata; casa rosada;
    obelisk; la boca; teatro colon; atlantic; pampas; recoleta; rio; porteno; eva peron; pope
    francis; steak; evita; la plata
montevideo | uruguay | -35 -56 | 1.3 | capital largest coast south river port beach temperate meat
    | rio de la plata; atlantic
rio de janeiro;rio | brazil | -23 -43 | 6.7 | coast east second beach mountains tropical carnival
    music former_capital state_capital football olympics bay favelas nightlife dance hot humid
    samba | copacabana; christ the redeemer; sugarloaf; ipanema; atlantic; samba; bossa nova;
    corcovado; maracana; state of rio de janeiro; guanabara; christ the redeemer statue; sugarloaf
    mountain; samba schools; cariocas; state of rio; southeastern brazil
sao paulo | brazil | -24 -47 | 12.3 | inland south east largest state_capital finance industry
    skyscrapers immigrants traffic museum nightlife football subtropical street_art food | state of
    sao paulo; avenida paulista; ibirapuera; largest city in south america; paulista; southeastern
    brazil; ibirapuera park; sao paulo state
brasilia | brazil | -16 -48 | 3.0 | capital inland central planned modern plateau lake politics
    altitude tropical architecture_modern | oscar niemeyer; federal district; paranoa; niemeyer;
    national congress; central west; lake paranoa; goias
salvador;salvador da bahia | brazil | -13 -38 | 2.9 | coast east north state_capital former_capital
    beach tropical carnival colonial african_culture music port church bay hot humid | bahia;
    pelourinho; atlantic; capoeira; lacerda elevator; northeast brazil; afro brazilian;
    northeastern brazil; african heritage
belo horizonte | brazil | -20 -44 | 2.5 | inland east state_capital mountains planned mining mild
    south | minas gerais; pampulha; oscar niemeyer; southeast brazil
fortaleza | brazil | -4 -38 | 2.7 | coast north east state_capital beach tropical port hot | ceara;
    atlantic; northeast brazil; iracema; northeastern brazil; brazilian northeast; dragao do mar;
    beira mar
london | united kingdom | 51 0 | 8.9 | capital largest river south finance museum theatre palace
    royal rainy temperate bridges subway immigrants university fashion olympics expensive music
    clock_tower football nightlife tourism | big ben; thames; tower of london; buckingham palace;
    london eye; england; tower bridge; westminster; british museum; heathrow; hyde park; river
    thames; shakespeare; harry potter; queen; stonehenge; sherlock holmes; west end; tate;
    churchill
edinburgh | united kingdom | 56 -3 | 0.5 | coast north castle historic university festivals hills
    rainy | scotland; edinburgh castle; royal mile; arthurs seat; holyrood; fringe; whisky; firth
    of forth; north sea
dublin | ireland | 53 -6 | 0.6 | capital largest coast east river port pubs beer rainy literature
    university tech | guinness; liffey; temple bar; trinity college; irish sea; st patricks
paris | france | 49 2 | 2.1 | capital largest inland north river fashion museum cathedral palace
    romance tower cafes art_painting subway finance bridges olympics expensive temperate music |
    eiffel tower; louvre; seine; notre dame; arc de triomphe; champs elysees; montmartre;
    versailles; mona lisa; sacre coeur; city of light; ile de france; napoleon; french revolution
marseille | france | 43 5 | 0.9 | coast south port second mediterranean_climate immigrants football
    seafood ancient | mediterranean; provence; bouillabaisse; old port; chateau dif
madrid | spain | 40 -4 | 3.2 | capital largest inland central plateau museum palace football
    nightlife hot dry_summers royal bullfighting tapas | prado; real madrid; plaza mayor; retiro;
    gran via; royal palace; puerta del sol; iberian; central spain; prado museum; community of
    madrid; region of madrid; manzanares; spanish royal family
barcelona | spain | 41 2 | 1.6 | coast north east second beach mediterranean_climate port football
    olympics architecture_modern church nightlife | catalonia; sagrada familia; gaudi;
    mediterranean; camp nou; la rambla; park guell
lisbon;lisboa | portugal | 39 -9 | 0.5 | capital largest coast west river hills port
    mediterranean_climate trams bridges music earthquake explorers mild | tagus; belem tower; fado;
    atlantic; alfama
rome;roma | italy | 42 12 | 2.8 | capital largest inland central river ancient ruins church
    religious museum mediterranean_climate fountains hills empire fashion | colosseum; vatican;
    tiber; trevi fountain; pantheon; roman forum; lazio; st peters; sistine chapel; roman empire;
    eternal city; spanish steps; vatican city; julius caesar; gladiators; papacy; pope;
    mediterranean
milan;milano | italy | 45 9 | 1.4 | inland north second fashion finance cathedral opera industry
    football design state_capital | lombardy; last supper; la scala; duomo; po valley
venice;venezia | italy | 45 12 | 0.3 | coast north island canals carnival bridges film_festival
    romance lagoon state_capital boats glassware | veneto; grand canal; gondola; st marks; rialto;
    adriatic; murano
naples;napoli | italy | 41 14 | 0.9 | coast south port volcano mediterranean_climate pizza bay
    ancient football state_capital | vesuvius; pompeii; campania; mediterranean; tyrrhenian
berlin | germany | 53 13 | 3.7 | capital largest inland east north river museum nightlife
    street_art divided wall war_history techno continental film_festival music immigrants | berlin
    wall; brandenburg gate; reichstag; spree; checkpoint charlie; museum island; cold war;
    currywurst; east germany; reunification
munich;muenchen | germany | 48 12 | 1.5 | inland south river beer festivals automobile finance
    football university state_capital mountains olympics | bavaria; oktoberfest; bmw; alps; isar;
    marienplatz
hamburg | germany | 54 10 | 1.8 | north second port river canals rainy music trade nightlife |
    elbe; reeperbahn; elbphilharmonie; north sea; speicherstadt
vienna;wien | austria | 48 16 | 1.9 | capital largest inland east river music opera palace cafes
    empire royal museum classical_music | danube; mozart; schonbrunn; habsburg; hofburg; beethoven;
    waltz
zurich | switzerland | 47 9 | 0.4 | inland north largest lake river finance mountains expensive
    chocolate watches cold | alps; lake zurich; limmat
brussels | belgium | 51 4 | 1.2 | capital largest inland central politics chocolate beer bilingual
    waffles | atomium; grand place; european union; manneken pis; nato
amsterdam | netherlands | 52 5 | 0.9 | capital largest canals museum bicycles port flowers
    nightlife art_painting rainy flat tolerance below_sea_level | van gogh; anne frank;
    rijksmuseum; red light district; north sea; amstel; heineken
copenhagen | denmark | 56 13 | 0.6 | capital largest coast island east port bicycles design palace
    harbor canals cold | little mermaid; tivoli; nyhavn; baltic; oresund
stockholm | sweden | 59 18 | 1.0 | capital largest coast island east archipelago cold snow museum
    palace nobel bridges lake | vasa; gamla stan; baltic; abba; nobel prize
oslo | norway | 60 11 | 0.7 | capital largest coast south fjord cold snow vikings ski nobel museum
    expensive | munch; nobel peace prize; viking ship
helsinki | finland | 60 25 | 0.7 | capital largest coast south cold snow design sauna port olympics
    cathedral | baltic; suomenlinna; gulf of finland
warsaw;warszawa | poland | 52 21 | 1.8 | capital largest inland east river rebuilt war_history cold
    snow continental | vistula; chopin; palace of culture; old town
krakow;cracow | poland | 50 20 | 0.8 | inland south castle former_capital historic river university
    medieval jewish_history | wawel; auschwitz; vistula; wieliczka; main market square
prague;praha | czech republic | 50 14 | 1.3 | capital largest inland west river bridges castle beer
    medieval clock_tower | charles bridge; vltava; bohemia; kafka; astronomical clock; prague
    castle; velvet revolution
budapest | hungary | 47 19 | 1.8 | capital largest inland north river bridges hot_springs politics
    castle continental empire nightlife music | danube; chain bridge; buda; fishermans bastion;
    thermal baths; pest; buda castle; ruin bars; hungarian parliament
bucharest;bucuresti | romania | 44 26 | 1.8 | capital largest inland south politics communism river
    continental palace nightlife | palace of the parliament; dambovita; wallachia; ceausescu;
    little paris; carpathian mountains; carpathians; little paris of the east
athens | greece | 38 24 | 0.7 | capital largest coast south ancient ruins temples
    mediterranean_climate hills olympics philosophy museum democracy hot dry_summers | acropolis;
    parthenon; plato; mediterranean; aegean; socrates; piraeus; attica; greek islands; mount
    lycabettus
kyiv;kiev | ukraine | 50 31 | 2.9 | capital largest inland north river orthodox cathedral
    continental cold snow gold_domes monastery war_history | dnieper; dnipro; st sophia; maidan;
    pechersk lavra; kievan rus; maidan square; slavic; chernobyl; motherland monument; golden gate
moscow | russia | 56 38 | 12.5 | capital largest inland west river orthodox cathedral cold snow
    palace subway ballet fort finance communism theatre olympics museum continental nightlife opera
    | red square; kremlin; bolshoi; st basils; volga; moskva; lenin; cathedral of christ the
    saviour; st basils cathedral; tsar; stalin
st petersburg;saint petersburg;petersburg | russia | 60 30 | 5.4 | coast west north second river
    canals port museum palace former_capital cold snow ballet bridges literature cathedral royal
    northwest opera | hermitage; neva; white nights; peter the great; baltic; gulf of finland;
    winter palace; leningrad; venice of the north; eastern europe; tsar
istanbul | turkey | 41 29 | 15.5 | coast northwest west largest two_continents river mosque port
    former_capital bridges market ancient empire historic palace temperate seafood nightlife |
    bosphorus; hagia sophia; blue mosque; grand bazaar; constantinople; black sea; ottoman;
    byzantine; topkapi; marmara; golden horn; galata; sea of marmara; hagia sophia museum
ankara | turkey | 40 33 | 5.5 | capital inland central second plateau museum university continental
    castle mosque politics | ataturk; anitkabir; anatolia; angora; central anatolia; mausoleum of
    ataturk
izmir | turkey | 38 27 | 3.0 | coast west port mediterranean_climate ancient bay hot mosque market
    | aegean; ephesus; smyrna; clock tower of izmir; kordon; aegean sea; aegean coast; turkish
    riviera
cairo | egypt | 30 31 | 10.1 | capital largest inland north river desert arid hot mosque museum
    ancient market pyramids pollution traffic | nile; pyramids; sphinx; giza plateau; pharaoh;
    tahrir; egyptian museum; khan el khalili; al azhar; great pyramid; pyramids of giza; ancient
    egyptian; great sphinx; islamic cairo
alexandria | egypt | 31 30 | 5.3 | coast north second port ancient library mediterranean_climate
    beach lighthouse_history mild | mediterranean; alexander the great; lighthouse of alexandria;
    cleopatra; qaitbay; bibliotheca; nile delta; library of alexandria; ptolemaic; pompeys pillar;
    citadel of qaitbay; greco roman
casablanca | morocco | 34 -8 | 3.4 | coast west largest port mosque finance industry film
    mediterranean_climate mild colonial north market | hassan ii mosque; atlantic; humphrey bogart
marrakesh;marrakech | morocco | 32 -8 | 1.0 | inland south market desert palace gardens mosque hot
    arid mountains walls former_capital | medina; jemaa el fnaa; atlas mountains; majorelle;
    koutoubia; red city
tunis | tunisia | 37 10 | 0.7 | capital largest coast north ancient ruins mosque
    mediterranean_climate market | carthage; medina; mediterranean; bardo
lagos | nigeria | 6 3 | 15.0 | coast south west largest port former_capital tropical film finance
    lagoon traffic music hot humid island beach | nollywood; afrobeat; gulf of guinea; atlantic;
    victoria island
accra | ghana | 6 0 | 2.5 | capital largest coast south tropical port beach market hot | gulf of
    guinea; atlantic; kwame nkrumah; jamestown
dakar | senegal | 15 -17 | 1.2 | capital largest coast west port peninsula beach music mosque hot |
    goree; atlantic; african renaissance monument; cap vert
abidjan | ivory coast | 5 -4 | 4.7 | coast south largest former_capital port lagoon tropical
    finance cathedral hot humid skyscrapers cocoa nightlife | gulf of guinea; atlantic; plateau
    district; ebrie; st pauls cathedral; plateau; ebrie lagoon; cathedral of st paul; little paris;
    paris of west africa; banco
nairobi | kenya | -1 37 | 4.4 | capital largest inland south altitude safari wildlife mild tech |
    nairobi national park; karen blixen; maasai; giraffe centre
addis ababa | ethiopia | 9 39 | 3.4 | capital largest inland central altitude mountains coffee
    orthodox museum mild market politics | african union; lucy; entoto; merkato; religious trinity
    cathedral; rock hewn churches; lalibela; ethiopian highlands
kinshasa;kinshaha | congo | -4 15 | 15.0 | capital largest inland west river tropical music hot
    humid port | congo river; rumba; brazzaville; leopoldville; soukous; congolese rumba; river
    congo
johannesburg | south africa | -26 28 | 5.6 | inland north largest state_capital altitude mining
    gold finance mild industry apartheid_history | soweto; nelson mandela; gauteng; apartheid;
    constitution hill
cape town | south africa | -34 18 | 4.0 | capital coast south west second mountains beach port wine
    mediterranean_climate state_capital wind | table mountain; robben island; cape of good hope;
    atlantic; nelson mandela; western cape
jerusalem | israel | 32 35 | 0.9 | capital largest inland central religious ancient walls mosque
    church hills museum | western wall; dome of the rock; holy sepulchre; al aqsa; temple mount;
    old city; jesus
dubai | united arab emirates | 25 55 | 3.4 | coast largest north desert arid hot skyscrapers
    tourism_luxury port shopping modern oil beach finance tower expensive immigrants mosque | burj
    khalifa; persian gulf; palm jumeirah; burj al arab; dubai mall
riyadh | saudi arabia | 25 47 | 7.5 | capital largest inland central desert arid hot oil mosque
    skyscrapers modern royal fort | kingdom centre; najd; masmak
mecca;makkah | saudi arabia | 21 40 | 2.0 | inland west desert arid hot religious mosque
    clock_tower valley | kaaba; hajj; prophet muhammad; grand mosque; hejaz
baghdad | iraq | 33 44 | 7.7 | capital largest inland central river desert arid hot mosque ancient
    former_capital museum war_history oil | tigris; mesopotamia; abbasid; green zone; house of
    wisdom; babylon; abu hanifa; one thousand and one nights
tehran;teheran | iran | 36 51 | 9.0 | capital largest inland north mountains tower mosque museum
    palace pollution traffic market arid altitude central cold snow | azadi tower; golestan;
    alborz; milad tower; grand bazaar of tehran; damavand; azadi; iranian revolution
mashhad | iran | 36 60 | 3.2 | inland north east second religious mosque arid state_capital saffron
    desert food | imam reza; khorasan; ferdowsi; imam reza shrine; shia; razavi khorasan; persian
    cuisine; shiite; goharshad
kabul | afghanistan | 35 69 | 4.6 | capital largest inland east mountains altitude valley river
    war_history mosque arid cold | hindu kush; babur gardens; taliban
karachi | pakistan | 25 67 | 15.7 | coast south largest port finance former_capital state_capital
    industry hot arid mosque beach food | sindh; arabian sea; quaid mausoleum; mohatta palace;
    jinnah; clifton; mazar e quaid; sindhi; muhammad ali jinnah; clifton beach; indus
lahore | pakistan | 32 74 | 12.0 | inland east north second state_capital river mosque fort
    historic gardens university food hot empire mughal market | punjab; badshahi mosque; lahore
    fort; ravi; shalimar; mughal; minar e pakistan; border with india; indian border; walled
faisalabad | pakistan | 31 73 | 3.2 | inland east textile industry clock_tower hot agriculture |
    punjab; lyallpur; ghanta ghar; chenab; partition; manchester of pakistan
delhi;new delhi | india | 29 77 | 16.8 | capital inland north river fort mosque temples monuments
    market pollution mughal hot politics subway traffic second empire | red fort; india gate; qutub
    minar; yamuna; jama masjid; humayun; lotus temple; mughal; chandni chowk; national capital
    territory; raj ghat; akshardham
mumbai;bombay | india | 19 73 | 12.5 | coast west largest port finance film state_capital monsoon
    tropical island humid skyscrapers traffic slums beach street_food nightlife | maharashtra;
    bollywood; gateway of india; arabian sea; dharavi; marine drive; taj hotel; elephanta; gateway;
    victoria terminus; chhatrapati shivaji; elephanta caves; financial capital of india; vada pav
kolkata;calcutta | india | 23 88 | 4.5 | inland east port river colonial former_capital
    state_capital literature trams monsoon tropical humid art intellectual bridges delta | west
    bengal; hooghly; victoria memorial; howrah bridge; ganges; durga puja; mother teresa; tagore;
    bay of bengal; rabindranath tagore; cultural capital; british india; victoria memorial hall;
    city of joy; rosogolla
chennai;madras | india | 13 80 | 7.1 | coast east south port beach temples automobile film tropical
    hot humid state_capital dance monsoon music | tamil nadu; bay of bengal; marina beach; tamil
    language; kapaleeshwarar; fort st george; bharatanatyam; kollywood; carnatic; tamil; dravidian;
    coromandel coast; temple architecture
bangalore;bengaluru | india | 13 78 | 8.4 | inland south tech gardens state_capital plateau mild
    altitude palace university | karnataka; silicon valley of india; kannada; vidhana soudha;
    lalbagh; cubbon park; deccan; garden city; silicon valley
hyderabad | india | 17 78 | 6.8 | inland south central tech fort mosque pearls palace food
    state_capital hot lake film mughal | telangana; charminar; biryani; golconda; nizam; telugu;
    deccan; tollywood; andhra pradesh; deccan plateau; city of pearls; hussain sagar; golconda
    fort; ramoji; cyber
ahmedabad | india | 23 73 | 5.6 | inland west textile river industry mosque temples festivals hot
    walls | gujarat; gandhi; sabarmati; gujarati; kite festival; mahatma gandhi; mahatma
kanpur | india | 26 80 | 2.8 | inland north river leather industry textile hot pollution | uttar
    pradesh; ganges; leather city; jk temple; leather industry; ganga; manchester of the east
dhaka | bangladesh | 24 90 | 10.3 | capital largest inland central river mosque textile tropical
    monsoon humid hot traffic delta fort | lalbagh fort; buriganga; rickshaw; ganges; ahsan manzil;
    national parliament house; bay of bengal; bangla; muslin; mughal; liberation war; dhaka muslin;
    jamdani
kathmandu | nepal | 28 85 | 1.0 | capital largest inland central mountains altitude temples valley
    religious earthquake | himalayas; mount everest; everest; swayambhunath; durbar square;
    pashupatinath; boudhanath
colombo | sri lanka | 7 80 | 0.8 | coast west island largest port tropical tea temples colonial
    capital hot humid | indian ocean; galle face; gangaramaya
yangon;rangoon | myanmar | 17 96 | 5.2 | south largest former_capital river pagoda temples colonial
    tropical port monsoon hot religious gold_domes | shwedagon pagoda; irrawaddy; sule pagoda;
    andaman sea; sule; kandawgyi; british colony; shwedagon; aung san suu kyi; golden pagoda
bangkok | thailand | 14 101 | 8.3 | capital largest central river temples palace nightlife
    street_food canals tropical hot humid market traffic tourism royal floating_market monsoon |
    chao phraya; grand palace; wat arun; emerald buddha; tuk tuk; wat pho; gulf of thailand; khao
    san; king rama; temple of the emerald buddha
hanoi | vietnam | 21 106 | 8.1 | capital inland north river lake colonial temples street_food
    monsoon second market motorbikes war_history | ho chi minh mausoleum; hoan kiem; red river; old
    quarter; pho; temple of literature
ho chi minh city;saigon | vietnam | 11 107 | 9.0 | south largest port river colonial tropical
    street_food market motorbikes war_history skyscrapers hot humid former_capital nightlife | cu
    chi tunnels; mekong; notre dame cathedral of saigon; ben thanh; reunification palace; saigon
    river; vietnam war_history; mekong delta; french colonial
singapore | singapore republic | 1 104 | 5.7 | capital largest coast island south port finance
    skyscrapers modern tropical clean expensive gardens shopping immigrants hot humid street_food
    city_state gambling | marina bay sands; merlion; gardens by the bay; sentosa; strait; malay
    peninsula; orchard road; changi; malay; strait of malacca; lee kuan yew; southeast asian
kuala lumpur | malaysia | 3 102 | 1.8 | capital largest inland west skyscrapers tower mosque
    tropical street_food shopping hot humid finance caves river | petronas towers; batu caves;
    klang valley; petronas
jakarta | indonesia | -6 107 | 10.6 | capital largest coast island west north port traffic tropical
    monsoon finance skyscrapers flooding mosque hot humid colonial pollution sinking northwest
    nightlife | java; batavia; istiqlal; monas; java sea; national monument; dutch; west java;
    greater jakarta; sundanese; northern java
bandung | indonesia | -7 108 | 2.4 | inland island west mountains volcano textile mild university
    tea colonial state_capital shopping architecture_modern fashion altitude | java; west java;
    sunda; tangkuban perahu; asian african conference; paris of java; art deco; gedung sate;
    priangan; sundanese culture; factory outlets; java island; angklung; tangkuban
surabaya | indonesia | -7 113 | 2.9 | coast island east second port industry tropical state_capital
    zoo mosque hot humid bridges | java; east java; suramadu; madura; city of heroes; java sea;
    heroes monument; majapahit; battle of surabaya; madura island; eastern java
manila | philippines | 15 121 | 1.8 | capital coast island north port bay colonial church tropical
    dense traffic walls monsoon hot humid shopping | luzon; intramuros; manila bay; fort santiago;
    rizal; south china sea; jose rizal; pasig; spanish colonial
hong kong | china | 22 114 | 7.5 | coast south east island port finance skyscrapers harbor
    subtropical expensive shopping colonial film food dim_sum market mountains special_region humid
    bridges nightlife | victoria harbour; victoria peak; kowloon; cantonese; british colony;
    special administrative; star ferry; south china sea; tian tan buddha; pearl river delta;
    disneyland; lantau; pearl river; former british colony; chinese territory; hong kong island
taipei | taiwan | 25 122 | 2.6 | capital north island tower tech street_food temples museum
    subtropical humid hot_springs mountains skyscrapers nightlife | taipei 101; national palace
    museum; chiang kai shek; bubble tea; beitou; shilin; national palace; tamsui; formosa
beijing;peking | china | 40 116 | 21.5 | capital north inland second palace temples empire historic
    museum olympics former_imperial continental pollution traffic university politics subway cold
    ancient walls duck | forbidden city; great wall; tiananmen; temple of heaven; summer palace;
    hutong; peking duck; ming; great wall of china; tiananmen square; forbidden city palace;
    chinese government; hebei
shanghai | china | 31 121 | 24.9 | coast east largest port finance skyscrapers river modern
    subtropical tower shopping colonial nightlife expo fashion humid delta european_style disney
    subway tourism | the bund; yangtze; huangpu; pudong; oriental pearl; east china sea; shanghai
    tower; disneyland; yangtze river delta; shanghainese
guangzhou;canton | china | 23 113 | 15.3 | south river port trade state_capital subtropical
    industry food dim_sum tower skyscrapers humid hot delta market nightlife | guangdong; pearl
    river; cantonese; canton tower; canton fair; south china; pearl river delta; chen clan; lingnan
chengdu | china | 31 104 | 16.3 | inland west southwest state_capital food spicy tea relaxed tech
    humid temples plain | sichuan; giant panda; hot pot; wuhou; jinli; wenshu; sichuan basin; panda
    breeding; panda; sichuan cuisine; sichuan opera
chongqing | china | 30 107 | 31.0 | inland southwest west mountains river hills food spicy industry
    fog humid hot bridges municipality former_capital automobile skyscrapers cable_car war_history
    | yangtze; hot pot; jialing; three gorges; ciqikou; sichuan; mountain city; sichuan basin;
    hongyadong
wuhan | china | 31 114 | 11.2 | inland central river state_capital lake university industry hot
    humid bridges tower transport_hub pandemic spicy east | hubei; yangtze; yellow crane tower;
    east lake; han river; hot dry noodles; covid; yellow crane; wuchang; jianghan plain; cherry
xian | china | 34 109 | 12.0 | inland northwest central state_capital ancient walls former_capital
    temples mosque museum historic empire silk_road former_imperial pagoda university food |
    shaanxi; terracotta army; terracotta warriors; silk road; big wild goose pagoda; wei river;
    tang; muslim quarter; qin; bell tower; han; bell and drum tower; qin shi huang
nanjing | china | 32 119 | 9.3 | east inland state_capital river former_capital walls historic
    university museum war_history subtropical former_imperial humid temples bridges hot | jiangsu;
    yangtze; sun yat sen; ming; purple mountain; confucius temple; nanjing massacre; qinhuai;
    xuanwu lake; sun yat sen mausoleum; ming xiaoling; republic of china; yangtze river delta
tianjin | china | 39 117 | 13.9 | coast north port municipality industry colonial river continental
    food trade clock_tower european_style ferris_wheel nightlife | bohai; tianjin eye; hai river;
    goubuli; haihe; bohai sea; bohai bay; hebei
harbin;haerbin | china | 46 127 | 10.0 | inland north east northeast state_capital cold snow
    ice_festival river orthodox beer winter_sports european_style continental sausage church |
    heilongjiang; ice and snow; saint sophia; songhua; manchuria; dongbei; siberian tiger; central
    street; ice festival; ice sculptures; siberia; saint sophia cathedral; russian architecture
shenyang | china | 42 123 | 9.1 | inland north east northeast state_capital industry palace cold
    former_capital former_imperial continental museum snow coal mining | liaoning; mukden palace;
    qing; manchuria; hun river; dongbei; manchu; shenyang imperial palace; northeastern china
qingdao | china | 36 120 | 10.1 | coast east north port beach beer european_style sailing olympics
    mountains seafood mild navy bridges | shandong; tsingtao; yellow sea; laoshan; jiaozhou; german
    colony; may fourth square; zhanqiao; shandong peninsula; tsingtao brewery; german architecture
tokyo | japan | 36 140 | 14.0 | capital largest coast east port skyscrapers finance tech subway
    palace temples anime dense expensive modern tower food island earthquake fashion olympics
    electronics cherry_blossoms shopping imperial bay immigrants tourism | honshu; mount fuji;
    tokyo tower; shibuya; sushi; imperial palace; skytree; kanto; ginza; akihabara; senso ji;
    meiji; harajuku; shinjuku; tokyo bay; sumida; meiji shrine; tsukiji; edo
osaka | japan | 35 136 | 2.7 | coast west port castle food street_food nightlife island industry
    trade comedy bay neon expo subtropical | honshu; kansai; osaka castle; dotonbori; takoyaki;
    okonomiyaki; universal studios; osaka bay; osaka
kyoto | japan | 35 136 | 1.5 | inland west former_capital temples historic geisha gardens
    cherry_blossoms bamboo island imperial palace traditional tea former_imperial university |
    honshu; kansai; fushimi inari; kinkakuji; golden pavilion; gion; arashiyama
yokohama | japan | 35 140 | 3.7 | coast east second port harbor island chinatown_big skyscrapers
    bay ferris_wheel state_capital modern bridges museum | honshu; kanto; kanagawa; chinatown;
    minato mirai; landmark tower; tokyo bay; red brick; ramen museum; sankeien; tokyo metropolitan;
    greater tokyo
nagoya | japan | 35 137 | 2.3 | coast central port automobile castle industry island state_capital
    food | honshu; toyota; chubu; nagoya castle; aichi; atsuta; miso; tokai; shinkansen; ise bay
seoul | south korea | 38 127 | 9.7 | capital largest inland north west river palace tech music
    skyscrapers shopping mountains tower olympics subway nightlife food fashion royal cosmetics
    continental temples market street_food historic university | gyeongbokgung; han river; gangnam;
    k pop; n seoul tower; myeongdong; bukchon; kimchi; samsung; namsan; changdeokgung; korean war;
    kpop; dmz; hallyu; joseon
busan;pusan | south korea | 35 129 | 3.4 | coast south east second port beach seafood film_festival
    temples mountains hot_springs mild bridges market | haeundae; jagalchi; gamcheon; gyeongsang;
    beomeosa; sea of japan; gwangan
pyongyang;pyong yang | north korea | 39 126 | 3.0 | capital largest inland west river monuments
    communism planned cold tower dictatorship | juche; taedong; kim il sung; mansudae; ryugyong;
    arch of triumph; korean war
ulaanbaatar;ulan bator | mongolia | 48 107 | 1.5 | capital largest inland north cold snow altitude
    nomads monastery steppe valley pollution coal | gandan; genghis khan; tuul; gobi; sukhbaatar
tashkent | uzbekistan | 41 69 | 2.6 | capital largest inland east market mosque silk_road
    earthquake subway arid continental textile communism | chorsu; silk road; hazrat imam; amir
    timur; amir temur; uzbek cuisine; plov; chorsu bazaar; central asian
sydney | australia | -34 151 | 5.3 | coast east south largest state_capital harbor beach opera
    bridges port finance skyscrapers olympics temperate expensive | opera house; harbour bridge;
    new south wales; bondi; pacific; tasman; sydney opera house; sydney harbour; bondi beach; blue
    mountains; pacific ocean; gold coast; sydney harbour bridge
melbourne | australia | -38 145 | 5.1 | coast south east second state_capital former_capital port
    street_art coffee sports trams tennis temperate river university bay | victoria state; yarra;
    australian open; great ocean road; cricket ground
auckland | new zealand | -37 175 | 1.5 | coast north island largest former_capital port harbor
    volcano sailing tower mild bridges | north island; sky tower; pacific; waitemata
"""


@dataclass(frozen=True)
class City:
    """A city to guess.

    Attributes:
        names: its name and other names, in lower case.
        country: the name of its country.
        continent: the continent of its country.
        currency: the currency of its country, without the country's name.
        languages: the languages of its country, most spoken first.
        latitude: degrees north.
        longitude: degrees east.
        millions: population in millions.
        traits: the traits of the table in its order, then those implied.
        belongs: names that belong to it: regions, languages, waters, sights and so on.
    """

    names: tuple[str, ...]
    country: str
    continent: str
    currency: str
    languages: tuple[str, ...]
    latitude: int
    longitude: int
    millions: float
    traits: tuple[str, ...]
    belongs: frozenset[str]

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]


def entries(table: str) -> list[str]:
    """Returns the entries of a table. An indented line continues the line before."""
    return re.sub(r"\n +", " ", table.strip()).split("\n")


def split(text: str, mark: str) -> tuple[str, ...]:
    """Returns the non-empty parts of a text between marks, stripped."""
    return tuple(part.strip() for part in text.split(mark) if part.strip())


@cache
def countries() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Returns the fields of each country: names, continent, regions, languages and so on."""
    lines = entries(COUNTRIES)
    found = [tuple(split(field, ";") for field in line.split("|")) for line in lines]
    return {fields[0][0]: fields for fields in found}


def implied(latitude: int, longitude: int, millions: float, traits: tuple[str, ...]) -> list[str]:
    """Returns the traits implied by a city's location, size and other traits."""
    follows = {
        "northern_hemisphere": latitude >= 0,
        "southern_hemisphere": latitude < 0,
        "eastern_hemisphere": longitude > 0,
        "western_hemisphere": longitude <= 0,
        "near_equator": abs(latitude) <= 10,
        "not_capital": "capital" not in traits,
        "big": millions >= 5,
        "inland": "coast" not in traits and "inland" not in traits,
        "water": bool({"coast", "river", "lake", "bay", "lagoon", "canals"} & set(traits)),
        "north": bool({"northwest", "northeast"} & set(traits)),
        "south": "southwest" in traits,
        "west": bool({"northwest", "southwest"} & set(traits)),
        "east": "northeast" in traits,
        "northeast": {"north", "east"} <= set(traits),
        "northwest": {"north", "west"} <= set(traits),
        "southeast": {"south", "east"} <= set(traits),
        "southwest": {"south", "west"} <= set(traits),
        "modern": "skyscrapers" in traits,
        "warm": bool({"hot", "tropical", "subtropical", "mediterranean_climate"} & set(traits)),
        "worship": bool({"mosque", "temples", "church", "cathedral", "orthodox"} & set(traits)),
        "any": True,
    }
    return [trait for trait, holds in follows.items() if holds and trait not in traits]


@cache
def cities() -> tuple[City, ...]:
    """Returns all cities of the table."""
    found = []
    for line in entries(CITIES):
        names, country, place, millions, traits, belongs = line.split("|")
        _, continent, regions, languages, currency, religion = countries()[country.strip()]
        latitude, longitude = map(int, place.split())
        listed = split(traits, " ")
        follows = implied(latitude, longitude, float(millions), listed)
        named = {*split(belongs, ";"), *regions, *languages, *continent, *currency, *religion}
        if (
            "nightlife" not in listed
            and float(millions) >= 2
            and not {"islam", "none"} & set(religion)
        ):
            follows.append("nightlife")
        if {"two_continents"} & set(listed):
            named.add("europe")
        found.append(
            City(
                names=split(names, ";"),
                country=country.strip(),
                continent=continent[0],
                currency=currency[0],
                languages=languages,
                latitude=latitude,
                longitude=longitude,
                millions=float(millions),
                traits=(*listed, *follows),
                belongs=frozenset({*named, country.strip()}),
            )
        )
    return tuple(found)
