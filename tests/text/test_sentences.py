"""Sentences of lines: punctuation of many scripts, what only looks like an end, odd lines, and long ones."""

import random
import time

import pytest

from t2t_lite.text.sentences import break_long, join_sentences, split_sentences

# "|" stands where a sentence ends; it is not in the text.
TEXTS = {
    "plain": "Hello. |How are you? |Fine! |It is 5 p.m. |He left… |1990 came.",
    "abbreviations": "Dr. von Braun (b. 1912) met J. F. Kennedy, e.g. in the U.S. Senate, vs. Mr. Smith. |See Fig. 3.",
    "numbers": "It costs $3.14 or 1.000,50 in No. 5 of it. |In 2020. |Version 1.2.3 is at example.com/a.b?c=d! |OK.",
    "quotes": 'He said "Go." |Then he left. |"Stop!" he cried. |(He was late.) |“No.” |\'Yes.\' |- And? |— So.',
    "no capital": "wait... what? no! yes. maybe",
    "German": "Am 3. Oktober kam Herr Dr. Müller, d.h. ca. 3,50 bzw. 4 Euro. |Er sagte: „Das ist gut.“ |Dann ging er.",
    "French": "M. Dupont arrive. |« Bonjour ! » dit-il à Mme Martin. |« Ça va ? » |C'est fini.",
    "Spanish": "¿Dónde está el Sr. López? |¡No lo sé! |«Vámonos.» |Y se fueron.",
    "Russian": "Он жил в г. Москва, т.е. в 1990 г. и там. |Проф. Иванов А. Б. ушёл! |Что?",
    "Greek": "Γεια σου. |Τι κάνεις; |Καλά.",
    "Chinese": "今天是2020年3月5日。|价格是3.5元，真的吗？！|他说：“你好！”然后走了。|是的！ |好",
    "Japanese": "「行く。」と言った。|「帰る。」|「はい。」 |本当ですか？|３．５％です。|そう",
    "Korean": "김 씨가 왔습니다. |그는 3.5달러를 냈어요. |정말요? |네!",
    "Arabic": "ذهب د. أحمد إلى السوق. |هل اشترى شيئا؟ |نعم، 3.5 دولار! |حسنا",
    "Urdu": "وہ آیا۔ |کیا ہوا؟ |کچھ نہیں۔",
    "Devanagari": 'डॉ. शर्मा आए। |वे बोले, "चलो।" |क्या हुआ? |कुछ नहीं।|सच॥ |हाँ',
    "others": "ሰላም ነው። |እንዴት ነህ፧ |ደህና። |Բարև։ |Ինչպես ես",
    "a paragraph's end": "Title\n\n|Text that is\nwrapped. |End",
}


@pytest.mark.parametrize("name", TEXTS)
def test_where_sentences_end(name: str) -> None:
    wanted = [sentence.strip() for sentence in TEXTS[name].split("|")]
    assert split_sentences(TEXTS[name].replace("|", "")) == wanted


@pytest.mark.parametrize(
    "text", ["", " ", "\t\u3000", "...", "。。。", "! ! !", "?!", '"', "no mark", "Mr.", " A b. ", "।"]
)
def test_odd_texts_stay_whole(text: str) -> None:
    assert split_sentences(text) == [text]


def _squeezed(text: str) -> str:
    return "".join(text.split())


def test_nothing_is_lost_or_blank_whatever_the_text() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        text = "".join(
            rng.choices("aA1é。！？．.!?…;。”“»«\"'()「」 \n\t\u3000\u0301\u200dज।ب؟,，", k=rng.randrange(40))
        )
        sentences = split_sentences(text)
        assert _squeezed("".join(sentences)) == _squeezed(text)
        assert sentences == [text] or all(sentence and sentence == sentence.strip() for sentence in sentences)
        longest = rng.randrange(1, 9)
        parts = break_long(text, lambda part: len(part) <= longest)  # noqa: B023
        assert _squeezed("".join(parts)) == _squeezed(text)
        assert all(0 < len(part) <= longest and part == part.strip() for part in parts)


@pytest.mark.parametrize("text", [".", ". ", "A. ", "Aa. ", "。", '."', ".(", "\n ", "。”", "！.", "．1", "a", ' "'])
def test_time_is_linear(text: str) -> None:
    start = time.process_time()
    split_sentences(text * (200_000 // len(text)))
    assert time.process_time() - start < 3


def test_long_sentences_are_broken_after_a_comma_at_a_space_or_anywhere() -> None:
    def broken(text: str, longest: int) -> list[str]:
        return break_long(text, lambda part: len(part) <= longest)

    assert broken("a, bb cc dd, ee ff", 13) == ["a, bb cc dd,", "ee ff"]
    assert broken("a, bb cc dd ee", 8) == ["a, bb cc", "dd ee"]
    assert broken("今天，他来了，我走了", 7) == ["今天，", "他来了，我走了"]
    assert broken("abcdefgh", 3) == ["ab", "cd", "ef", "gh"]
    assert broken("aaa\u0301\u0301bb", 5) == ["aaa\u0301\u0301", "bb"]
    assert broken(" ", 3) == []


def test_joined_sentences_have_spaces_where_their_script_has() -> None:
    assert join_sentences(["Hallo.", "", "Wie geht es?"]) == "Hallo. Wie geht es?"
    assert join_sentences(["你好。", "“好！”", "OK.", "是"]) == "你好。“好！”OK. 是"
    assert join_sentences(["안녕하세요.", "네."]) == "안녕하세요. 네."
    assert join_sentences(["", ""]) == ""
