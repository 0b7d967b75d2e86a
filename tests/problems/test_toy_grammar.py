"""Golden clauses of toy_ende's grammar, in each order of words."""

import itertools

import pytest

from t2t_lite.problems.toy import ende_words
from t2t_lite.problems.toy.ende_grammar import Clause, NounPhrase, Order, Phrase, english, german
from t2t_lite.problems.toy.ende_words import Adverb, Modal, Preposition, Verb


def _phrase(text: str) -> Phrase:
    """Returns the phrase that reads as `text` in English, as a subject or an object."""
    for pronoun in ende_words.PRONOUNS:
        if text in (pronoun.english, pronoun.english_object):
            return pronoun
    words = text.split()
    for group, adjectives in ((g, ende_words.ADJECTIVES[k]) for k, g in ende_words.NOUNS.items()):
        for noun, plural in itertools.product(group, (False, True)):
            for determiner in ende_words.PLURAL_DETERMINERS if plural else ende_words.DETERMINERS:
                for adjective in (None, *adjectives):
                    found = NounPhrase(noun, determiner, adjective, plural)
                    if found.to_english(subject=True).split() == words:
                        return found
    raise LookupError(text)


def _verb(english_form: str, kind: str) -> Verb:
    return next(v for v in ende_words.VERBS[kind] if v.english == english_form)


def _adverb(text: str) -> Adverb:
    return next(a for a in ende_words.ADVERBS if a.english == text)


def _modal(text: str) -> Modal:
    return next(m for m in ende_words.MODALS if m.english == text)


def _preposition(text: str) -> Preposition:
    return next(p for group in ende_words.PREPOSITIONS.values() for p in group if p.english == text)


CALL = _verb("call", "accusative")
CALLS = Clause(_phrase("the old man"), CALL, object=_phrase("his sister"), adverb=_adverb("today"))
PICKS = Clause(_phrase("she"), _verb("pick", "accusative"), object=_phrase("him"))
GIVES = Clause(
    _phrase("my brother"),
    _verb("give", "giving"),
    recipient=_phrase("the boy"),
    object=_phrase("an expensive book"),
    modal=_modal("want to"),
)
NEVER = Clause(_phrase("they"), _verb("help", "dative"), object=_phrase("these students"), adverb=_adverb("never"))
NEVER_ANY = Clause(_phrase("he"), _verb("buy", "accusative"), object=_phrase("a car"), adverb=_adverb("never"))
SHOWS = Clause(
    _phrase("he"),
    _verb("show", "giving"),
    recipient=_phrase("them"),
    object=_phrase("two pictures"),
    adverb=_adverb("now"),
)
INTO = Clause(_phrase("I"), _verb("go", "motion"), phrase=(_preposition("into"), _phrase("the garden")))
IN = Clause(_phrase("we"), _verb("sing", "intransitive"), phrase=(_preposition("in"), _phrase("the garden")))
TO = Clause(_phrase("the cats"), _verb("run", "motion"), phrase=(_preposition("to"), _phrase("the dark kitchen")))
TIRED = Clause(_phrase("I"), ende_words.BE, predicate=_phrase("the tired man").adjective, adverb=_adverb("often"))


@pytest.mark.parametrize(
    ("clause", "order", "source", "target"),
    [
        (CALLS, "subject first", "the old man calls his sister today", "der alte Mann ruft heute seine Schwester an"),
        (CALLS, "adverb first", "today the old man calls his sister", "heute ruft der alte Mann seine Schwester an"),
        (CALLS, "verb first", "does the old man call his sister today", "ruft der alte Mann heute seine Schwester an"),
        (CALLS, "verb last", None, "der alte Mann heute seine Schwester anruft"),
        (PICKS, "subject first", "she picks him up", "sie holt ihn ab"),
        (PICKS, "verb last", None, "sie ihn abholt"),
        (
            GIVES,
            "subject first",
            "my brother wants to give the boy an expensive book",
            "mein Bruder will dem Jungen ein teures Buch geben",
        ),
        (
            GIVES,
            "verb first",
            "does my brother want to give the boy an expensive book",
            "will mein Bruder dem Jungen ein teures Buch geben",
        ),
        (GIVES, "verb last", None, "mein Bruder dem Jungen ein teures Buch geben will"),
        (NEVER, "subject first", "they never help these students", "sie helfen diesen Studenten nie"),
        (NEVER_ANY, "subject first", "he never buys a car", "er kauft nie ein Auto"),
        (SHOWS, "subject first", "he shows them two pictures now", "er zeigt ihnen jetzt zwei Bilder"),
        (SHOWS, "adverb first", "now he shows them two pictures", "jetzt zeigt er ihnen zwei Bilder"),
        (INTO, "subject first", "I go into the garden", "ich gehe in den Garten"),
        (IN, "subject first", "we sing in the garden", "wir singen im Garten"),
        (TO, "subject first", "the cats run to the dark kitchen", "die Katzen laufen zur dunklen Küche"),
        (TIRED, "subject first", "I am often tired", "ich bin oft müde"),
        (TIRED, "verb first", "am I often tired", "bin ich oft müde"),
        (TIRED, "verb last", None, "ich oft müde bin"),
    ],
)
def test_golden_clauses(clause: Clause, order: Order, source: str | None, target: str) -> None:
    assert german(clause, order) == target
    if source is not None:  # English has no verb-final order
        assert english(clause, order) == source


def test_a_modal_and_a_separable_verb() -> None:
    clause = Clause(_phrase("the aunts"), CALL, _modal("can"), object=_phrase("us"))
    assert english(clause) == "the aunts can call us"
    assert german(clause) == "die Tanten können uns anrufen"
    assert german(clause, "verb last") == "die Tanten uns anrufen können"
    assert english(clause, "verb first") == "can the aunts call us"


@pytest.mark.parametrize(
    ("case", "phrases"),
    [
        ("nominative", "ein alter Hund / eine alte Katze / ein altes Pferd / meine alten Hunde / viele alte Hunde"),
        ("accusative", "einen alten Hund / eine alte Katze / ein altes Pferd / meine alten Hunde / viele alte Hunde"),
        (
            "dative",
            "einem alten Hund / einer alten Katze / einem alten Pferd / meinen alten Hunden / vielen alten Hunden",
        ),
    ],
)
def test_declension_after_ein_and_many(case: str, phrases: str) -> None:
    sources = ("an old dog", "an old cat", "an old horse", "my old dogs", "many old dogs")
    assert [_phrase(source).to_german(case) for source in sources] == phrases.split(" / ")
