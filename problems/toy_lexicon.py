"""The words of toy_ende: about 150 English words and their German forms, as tables.

Each English form has one German reading in the sentences that toy_grammar makes, so that the translation is a
function of the source. An underscore stands for a space, a lone one for "nothing".
"""

from __future__ import annotations

from .toy_words import (
    ACCUSATIVE,
    DATIVE,
    NOMINATIVE,
    Adjective,
    Adverb,
    Determiner,
    Modal,
    Noun,
    Preposition,
    Pronoun,
    Verb,
)


def _rows(table: str) -> list[list[str]]:
    return [[("" if c == "_" else c.replace("_", " ")) for c in line.split()] for line in table.strip().split("\n")]


def _list(column: str) -> tuple[str, ...]:
    return tuple(column.split("+")) if column else ()


def _nouns(table: str) -> tuple[Noun, ...]:
    return tuple(Noun(e, es, g, gs, kind[0], kind == "mw") for e, es, g, gs, kind in _rows(table))


def _adjectives(table: str) -> tuple[Adjective, ...]:
    return tuple(Adjective(e, g, stem or g) for e, g, stem in _rows(table))


def _verbs(case: str, table: str) -> tuple[Verb, ...]:
    return tuple(
        Verb(e, third, particle, (ich, er, wir), prefix, case, _list(objects), _list(phrases))
        for e, third, particle, ich, er, wir, prefix, objects, phrases in _rows(table)
    )


# Columns: English singular and plural, German singular and plural, gender (mw: weak masculine).
NOUNS = {
    "person": _nouns("""
        man men Mann Männer m
        woman women Frau Frauen f
        child children Kind Kinder n
        girl girls Mädchen Mädchen n
        boy boys Junge Jungen mw
        teacher teachers Lehrer Lehrer m
        doctor doctors Arzt Ärzte m
        mother mothers Mutter Mütter f
        father fathers Vater Väter m
        sister sisters Schwester Schwestern f
        brother brothers Bruder Brüder m
        aunt aunts Tante Tanten f
        uncle uncles Onkel Onkel m
        friend friends Freund Freunde m
        student students Student Studenten mw"""),
    "animal": _nouns("""
        dog dogs Hund Hunde m
        cat cats Katze Katzen f
        horse horses Pferd Pferde n"""),
    "reading": _nouns("""
        book books Buch Bücher n
        letter letters Brief Briefe m
        newspaper newspapers Zeitung Zeitungen f"""),
    "food": _nouns("""
        apple apples Apfel Äpfel m
        soup soups Suppe Suppen f
        egg eggs Ei Eier n"""),
    "thing": _nouns("""
        car cars Auto Autos n
        bicycle bicycles Fahrrad Fahrräder n
        table tables Tisch Tische m
        lamp lamps Lampe Lampen f
        picture pictures Bild Bilder n
        bag bags Tasche Taschen f
        key keys Schlüssel Schlüssel m"""),
    "clothes": _nouns("""
        coat coats Mantel Mäntel m
        shirt shirts Hemd Hemden n
        jacket jackets Jacke Jacken f"""),
    "opening": _nouns("""
        door doors Tür Türen f
        box boxes Kiste Kisten f
        window windows Fenster Fenster n"""),
    "place": _nouns("""
        garden gardens Garten Gärten m
        forest forests Wald Wälder m
        kitchen kitchens Küche Küchen f
        school schools Schule Schulen f
        city cities Stadt Städte f
        house houses Haus Häuser n
        village villages Dorf Dörfer n
        hotel hotels Hotel Hotels n"""),
}

# Columns: English, German, stem where it differs.
_BEING = _adjectives("""
    old alt _
    young jung _
    small klein _
    big groß _
    clever klug _
    friendly freundlich _
    tired müde müd
    sick krank _
    happy glücklich _""")
PASSING = _BEING[-4:]  # friendly, tired, sick, happy: what a time can be given for
_THING = _adjectives("""
    old alt _
    small klein _
    big groß _
    new neu _
    beautiful schön _
    cheap billig _
    expensive teuer teur
    red rot _
    green grün _""")
_FOOD = _adjectives("""
    small klein _
    big groß _
    good gut _
    warm warm _
    cheap billig _
    expensive teuer teur""")
_PLACE = _adjectives("""
    old alt _
    small klein _
    big groß _
    beautiful schön _
    new neu _
    dark dunkel dunkl
    quiet ruhig _""")
ADJECTIVES = {
    "person": _BEING,
    "animal": _BEING,
    "reading": _THING,
    "food": _FOOD,
    "thing": _THING,
    "clothes": _THING,
    "opening": _THING,
    "place": _PLACE,
}

THE = Determiner("the", "d", "der")
A = Determiner("a", "ein", "ein")
POSSESSIVES = tuple(Determiner(e, g, "ein") for e, g in _rows("my mein\n his sein\n her ihr\n our unser\n their ihr"))
DETERMINERS = (THE, A, Determiner("this", "dies", "der"), *POSSESSIVES)
PLURAL_DETERMINERS = (
    THE,
    Determiner("these", "dies", "der"),
    *POSSESSIVES,
    Determiner("many", "viel", "der"),
    Determiner("two", "zwei", "none"),
    Determiner("three", "drei", "none"),
)

PRONOUNS = tuple(
    Pronoun(e, eo, n, a, d, int(p))
    for e, eo, n, a, d, p in _rows("""
        I me ich mich mir 0
        he him er ihn ihm 1
        she her sie sie ihr 1
        we us wir uns uns 2
        they them sie sie ihnen 2""")
)

# Columns: English base, third person, particle; German ich, er, wir, prefix; kinds of object; kinds of phrase.
VERBS = {
    "accusative": _verbs(
        ACCUSATIVE,
        """
        see sees _ sehe sieht sehen _ person+animal+thing+place place
        love loves _ liebe liebt lieben _ person+animal+place _
        look_for looks_for _ suche sucht suchen _ person+animal+thing+reading+clothes place+company
        find finds _ finde findet finden _ animal+thing+reading+clothes place
        buy buys _ kaufe kauft kaufen _ thing+reading+food+clothes+animal benefit
        sell sells _ verkaufe verkauft verkaufen _ thing+reading+food+animal place
        read reads _ lese liest lesen _ reading place+company
        eat eats _ esse isst essen _ food place+company
        need needs _ brauche braucht brauchen _ person+thing+clothes benefit
        visit visits _ besuche besucht besuchen _ person company
        ask asks _ frage fragt fragen _ person _
        have has _ habe hat haben _ thing+reading+food+animal _
        call calls _ rufe ruft rufen an person _
        pick picks up hole holt holen ab person+animal+thing company
        invite invites _ lade lädt laden ein person _
        bring brings along bringe bringt bringen mit person+animal+food+reading _
        put puts on ziehe zieht ziehen an clothes _
        open opens _ mache macht machen auf opening company
        close closes _ mache macht machen zu opening _""",
    ),
    "dative": _verbs(
        DATIVE,
        """
        help helps _ helfe hilft helfen _ person place
        thank thanks _ danke dankt danken _ person _
        follow follows _ folge folgt folgen _ person+animal direction
        trust trusts _ traue traut trauen _ person _
        answer answers _ antworte antwortet antworten _ person _
        listen_to listens_to _ höre hört hören zu person _""",
    ),
    "giving": _verbs(
        ACCUSATIVE,
        """
        give gives _ gebe gibt geben _ thing+reading+food+clothes _
        show shows _ zeige zeigt zeigen _ thing+reading+clothes+animal _
        bring brings _ bringe bringt bringen _ thing+reading+food+clothes _
        send sends _ schicke schickt schicken _ reading+thing _""",
    ),
    "intransitive": _verbs(
        ACCUSATIVE,
        """
        sleep sleeps _ schlafe schläft schlafen _ _ place
        work works _ arbeite arbeitet arbeiten _ _ place+company+benefit
        sing sings _ singe singt singen _ _ place+company+benefit
        dance dances _ tanze tanzt tanzen _ _ place+company
        cook cooks _ koche kocht kochen _ _ place+company+benefit
        wait waits _ warte wartet warten _ _ place
        get_up gets_up _ stehe steht stehen auf _ _
        go_out goes_out _ gehe geht gehen aus _ company
        come_back comes_back _ komme kommt kommen zurück _ company
        fall_asleep falls_asleep _ schlafe schläft schlafen ein _ place
        watch_television watches_television _ sehe sieht sehen fern _ place+company""",
    ),
    "motion": _verbs(
        ACCUSATIVE,
        """
        go goes _ gehe geht gehen _ _ direction
        run runs _ laufe läuft laufen _ _ direction
        come comes _ komme kommt kommen _ _ direction""",
    ),
    "saying": _verbs(
        ACCUSATIVE,
        """
        say says _ sage sagt sagen _ _ _
        know knows _ weiß weiß wissen _ _ _
        think thinks _ denke denkt denken _ _ _
        hope hopes _ hoffe hofft hoffen _ _ _
        believe believes _ glaube glaubt glauben _ _ _""",
    ),
}
BE = Verb("be", "is", "", ("bin", "ist", "sind"), "", NOMINATIVE, (), ())

MODALS = (
    Modal("can", "can", ("kann", "kann", "können"), True),
    Modal("must", "must", ("muss", "muss", "müssen"), True),
    Modal("want to", "wants to", ("will", "will", "wollen"), False),
)

# The phrases that verbs take, by kind, and the nouns that follow.
PREPOSITIONS = {
    "place": tuple(
        Preposition(e, g, DATIVE) for e, g in _rows("in in\n behind hinter\n in_front_of vor\n next_to neben")
    ),
    "direction": (
        Preposition("into", "in", ACCUSATIVE),
        Preposition("through", "durch", ACCUSATIVE),
        Preposition("to", "zu", DATIVE),
    ),
    "company": (Preposition("with", "mit", DATIVE), Preposition("without", "ohne", ACCUSATIVE)),
    "benefit": (Preposition("for", "für", ACCUSATIVE),),
}
PHRASE_NOUNS = {"place": "place", "direction": "place", "company": "person", "benefit": "person"}
CONTRACTIONS = {("in", "dem"): "im", ("in", "das"): "ins", ("zu", "dem"): "zum", ("zu", "der"): "zur"}

ADVERBS = tuple(
    Adverb(e, g, before == "before")
    for e, g, before in _rows("""
        today heute _
        now jetzt _
        every_day jeden_Tag _
        on_Monday am_Montag _
        on_Sunday am_Sonntag _
        in_the_morning am_Morgen _
        in_the_evening am_Abend _
        often oft before
        never nie before
        always immer before""")
)

# Conjunctions whose clause is verb-final; they also open a sentence.
CONJUNCTIONS = (("because", "weil"), ("when", "wenn"), ("although", "obwohl"))
THAT = ("that", "dass")
