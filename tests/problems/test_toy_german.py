"""A large sample of toy_ende's German, checked against tables written here, not against the grammar's own."""

import itertools
import re

from t2t_lite.problems.toy import ende, ende_words

PAIRS = list(itertools.islice(ende.pairs("german"), 6000))

# Gender, singular forms and plural forms of each noun.
NOUNS = {
    "m": "Mann Lehrer Arzt Vater Bruder Onkel Freund Hund Brief Apfel Tisch Schlüssel Mantel Garten Wald",
    "f": "Frau Mutter Schwester Tante Katze Zeitung Suppe Lampe Tasche Jacke Tür Kiste Küche Schule Stadt",
    "n": "Kind Mädchen Pferd Buch Ei Auto Fahrrad Bild Hemd Fenster Haus Dorf Hotel",
}
WEAK = {"Junge": "Jungen", "Student": "Studenten"}
PLURALS = (
    "Männer Lehrer Ärzte Väter Brüder Onkel Freunde Hunde Briefe Äpfel Tische Schlüssel Mäntel Gärten Wälder Frauen "
    "Mütter Schwestern Tanten Katzen Zeitungen Suppen Lampen Taschen Jacken Türen Kisten Küchen Schulen Städte Kinder "
    "Mädchen Pferde Bücher Eier Autos Fahrräder Bilder Hemden Fenster Häuser Dörfer Hotels Jungen Studenten"
).split()
DATIVE_PLURALS = {p if p.endswith(("n", "s")) else f"{p}n" for p in PLURALS}
TIMES = {"Tag", "Montag", "Sonntag", "Morgen", "Abend"}
PREFIXES = {"an", "ab", "ein", "mit", "auf", "zu", "aus", "zurück", "fern"}

# The whole paradigm of "der" and of "dieser": determiner, ending of an adjective after it, gender.
DER_WORDS = {
    "nominative": {"m": "der dieser e", "f": "die diese e", "n": "das dieses e", "pl": "die diese en"},
    "accusative": {"m": "den diesen en", "f": "die diese e", "n": "das dieses e", "pl": "die diese en"},
    "dative": {"m": "dem diesem en", "f": "der dieser en", "n": "dem diesem en", "pl": "den diesen en"},
}
EIN_WORDS = {
    "nominative": {"m": "ein er", "f": "eine e", "n": "ein es", "pl": "meine en"},
    "accusative": {"m": "einen en", "f": "eine e", "n": "ein es", "pl": "meine en"},
    "dative": {"m": "einem en", "f": "einer en", "n": "einem en", "pl": "meinen en"},
}
PREPOSITIONS = {
    "mit": "dative",
    "hinter": "dative",
    "vor": "dative",
    "neben": "dative",
    "zu": "dative",
    "für": "accusative",
    "ohne": "accusative",
    "durch": "accusative",
}
# Stems of adjectives, as they stand before an ending.
STEMS = (
    "alt jung klein groß klug freundlich müd krank glücklich neu schön billig teur rot grün gut warm dunkl ruhig"
).split()


def _case_forms(noun: str, case: str) -> set[str]:
    """What may precede a noun form in a case: determiner and adjective ending, such as "der e"."""
    found = set()
    for gender, words in NOUNS.items():
        if noun in words.split():
            found |= _der_and_ein(case, gender)
    for nominative, other in WEAK.items():
        if noun == (nominative if case == "nominative" else other):
            found |= _der_and_ein(case, "m")
    if noun in (DATIVE_PLURALS if case == "dative" else PLURALS):
        found |= _der_and_ein(case, "pl")
        strong = "en" if case == "dative" else "e"
        found |= {f"zwei {strong}", f"drei {strong}", f"viel{strong} {strong}"}
    return found


def _der_and_ein(case: str, gender: str) -> set[str]:
    the, this, ending = DER_WORDS[case][gender].split()
    ein, ein_ending = EIN_WORDS[case][gender].split()
    suffix = ein.removeprefix("mein").removeprefix("ein")
    possessives = {f"{stem}{suffix} {ein_ending}" for stem in ("mein", "sein", "ihr", "unser", "ein")}
    return {f"{the} {ending}", f"{this} {ending}"} | possessives


def _noun_phrase_after(words: list[str]) -> tuple[str, str | None, str]:
    """Returns (determiner, adjective or None, noun) at the start of `words`."""
    if words[1][0].isupper():
        return words[0], None, words[1]
    return words[0], words[1], words[2]


def _agrees(determiner: str, adjective: str | None, noun: str, case: str) -> bool:
    allowed = (form.split() for form in _case_forms(noun, case))
    return any(
        determiner == word and (adjective is None or adjective in [stem + ending for stem in STEMS])
        for word, ending in allowed
    )


def _words(text: str) -> list[str]:
    return re.findall(r"[^\s,.?]+", text)


def test_each_noun_of_the_lexicon_is_in_the_tables_here() -> None:
    nouns = [noun for group in ende_words.NOUNS.values() for noun in group]
    singulars = {noun for words in NOUNS.values() for noun in words.split()} | set(WEAK)
    assert {noun.german for noun in nouns} == singulars
    assert {noun.german_plural for noun in nouns} == set(PLURALS)
    assert len(nouns) == len({noun.english for noun in nouns}) == len(singulars)


def test_phrases_after_prepositions_agree() -> None:
    merged = {"im": ("dem", "dative"), "zum": ("dem", "dative"), "zur": ("der", "dative"), "ins": ("das", "accusative")}
    plain = re.compile(rf"\b({'|'.join(PREPOSITIONS)}) ([a-zäöü]+) (?:([a-zäöüß]+) )?([A-ZÄÖÜ]\w+)")
    contracted = re.compile(r"\b(im|zum|zur|ins) (?:([a-zäöüß]+) )?([A-ZÄÖÜ]\w+)")
    checked = 0
    for _, target in PAIRS:
        for preposition, determiner, adjective, noun in plain.findall(target):
            if determiner != "und":  # else "zu" is a separated prefix: macht die Tür zu und der Mann ...
                assert _agrees(determiner, adjective or None, noun, PREPOSITIONS[preposition]), target
                checked += 1
        for word, adjective, noun in contracted.findall(target):
            determiner, case = merged[word]
            assert _agrees(determiner, adjective or None, noun, case), target
            checked += 1
    assert checked > 300


def test_subjects_that_open_a_sentence_agree_with_noun_and_verb() -> None:
    checked = 0
    for _, target in PAIRS:
        words = _words(target[0].lower() + target[1:])
        if words[0] in "ich er sie wir heute jetzt jeden am weil wenn obwohl".split() or target.endswith("?"):
            continue
        determiner, adjective, noun = _noun_phrase_after(words)
        assert _agrees(determiner, adjective, noun, "nominative"), target
        verb = words[2 if adjective is None else 3]
        plural_verb = verb.endswith("en") or verb == "sind"
        if noun in WEAK or noun not in PLURALS:
            assert not plural_verb, target
        elif noun not in {n for words_ in NOUNS.values() for n in words_.split()}:
            assert plural_verb, target
        checked += 1
    assert checked > 1500


def test_nouns_alone_are_capitalised() -> None:
    nouns = {n for words in NOUNS.values() for n in words.split()} | set(WEAK) | set(PLURALS) | DATIVE_PLURALS | TIMES
    lower = {noun.lower() for noun in nouns} - {"junge", "jungen"}  # adjectives too
    for _, target in PAIRS:
        first, *rest = _words(target)
        assert all((word in nouns) == word[0].isupper() for word in rest), target
        assert not lower.intersection(rest)
        assert first[0].isupper()


def test_the_verb_is_second_after_what_is_fronted() -> None:
    not_verbs = "ich er sie wir der die das dies diese dieser dieses ein eine mein meine sein seine ihr ihre".split()
    fronted = checked = 0
    for source, target in PAIRS:
        opened = re.match(r"(?:Heute|Jetzt|Jeden Tag|Am (?:Montag|Sonntag|Morgen|Abend)) (\S+)", target)
        clause = re.match(r"(?:Weil|Wenn|Obwohl) [^,]+, (\S+)", target)
        if opened or clause:
            verb = (opened or clause)[1]
            assert verb not in not_verbs, target
            assert re.search(r"(t|en|e|sind|ist|bin|kann|muss|will)$", verb), target
            fronted += opened is not None
            checked += clause is not None
            assert bool(opened) == bool(re.match(r"(Today|Now|Every day|On|In the (morning|evening)) ", source))
    assert fronted > 300
    assert checked > 300


def test_separable_verbs_are_joined_at_the_end_and_apart_in_front() -> None:
    apart = joined = 0
    for _, target in PAIRS:
        for clause in re.split(r", ", target.rstrip(".?")):
            final = re.match(r"(?:[Ww]eil|[Ww]enn|[Oo]bwohl|dass) ", clause)
            last = clause.split()[-1]
            if final:
                # A verb-final clause ends with a finite verb or a modal, never with a prefix alone.
                assert last not in PREFIXES, target
                assert re.search(r"(t|en|e|sind|ist|bin|kann|muss|will|weiß)$", last), target
                joined += bool(
                    re.match(r"(an|ab|ein|mit|auf|zu|aus|zurück|fern)(ruf|hol|lad|läd|bring|mach|steh|geh)", last)
                )
            else:
                apart += last in PREFIXES
    assert apart > 300
    assert joined > 60
