"""Names of languages, as people head the columns of a table: German, Deutsch, de, deu, de_DE."""

from __future__ import annotations

import re
import unicodedata

from t2t_lite.languages import base_language

# A code, then the English names and the language's own; a name of several words is written with underscores.
_TABLE = """
af afr Afrikaans
am amh Amharic አማርኛ
ar ara Arabic العربية عربي
as asm Assamese অসমীয়া
az aze Azerbaijani Azeri Azərbaycan Azərbaycanca
be bel Belarusian Belarussian Беларуская
bg bul Bulgarian Български
bn ben Bengali Bangla বাংলা
bo bod tib Tibetan བོད་སྐད་
br bre Breton Brezhoneg
bs bos Bosnian Bosanski
ca cat Catalan Valencian Català
ceb Cebuano
cs ces cze Czech Čeština Česky Český
cy cym wel Welsh Cymraeg
da dan Danish Dansk
de deu ger German Deutsch
dz dzo Dzongkha
el ell gre Greek Ελληνικά
en eng English
eo epo Esperanto
es spa Spanish Castilian Español Castellano
et est Estonian Eesti
eu eus baq Basque Euskara
fa fas per pes Persian Farsi فارسی
fi fin Finnish Suomi
fil Filipino
fo fao Faroese Føroyskt
fr fra fre French Français
fy fry Frisian Frysk
ga gle Irish Gaeilge
gd gla Scottish_Gaelic Gaelic Gàidhlig
gl glg Galician Galego
gu guj Gujarati ગુજરાતી
ha hau Hausa
he heb iw Hebrew עברית
hi hin Hindi हिन्दी हिंदी
hr hrv Croatian Hrvatski
ht hat Haitian Haitian_Creole Kreyòl
hu hun Hungarian Magyar
hy hye arm Armenian Հայերեն
id ind Indonesian Bahasa_Indonesia
ig ibo Igbo
is isl ice Icelandic Íslenska
it ita Italian Italiano
ja jpn Japanese 日本語 にほんご
jv jav Javanese
ka kat geo Georgian ქართული
kk kaz Kazakh Қазақ Қазақша
km khm Khmer Cambodian ខ្មែរ
kn kan Kannada ಕನ್ನಡ
ko kor Korean 한국어
ku kur Kurdish Kurdî
ky kir Kyrgyz Kirghiz Кыргызча
la lat Latin Latina
lb ltz Luxembourgish Lëtzebuergesch
lo lao Lao ລາວ
lt lit Lithuanian Lietuvių
lv lav Latvian Latviešu
mg mlg Malagasy
mi mri mao Maori Māori
mk mkd mac Macedonian Македонски
ml mal Malayalam മലയാളം
mn mon Mongolian Монгол
mr mar Marathi मराठी
ms msa may Malay Bahasa_Melayu
mt mlt Maltese Malti
my mya bur Burmese Myanmar မြန်မာ
nb nob Bokmål Norwegian_Bokmål Norsk_Bokmål
ne nep Nepali नेपाली
nl nld dut Dutch Flemish Nederlands
nn nno Nynorsk Norwegian_Nynorsk Norsk_Nynorsk
no nor Norwegian Norsk
oc oci Occitan
or ori ory Odia Oriya ଓଡ଼ିଆ
pa pan Punjabi Panjabi ਪੰਜਾਬੀ
pl pol Polish Polski
ps pus Pashto پښتو
pt por Portuguese Português
ro ron rum Romanian Moldovan Română
ru rus Russian Русский
rw kin Kinyarwanda
sa san Sanskrit संस्कृतम्
sd snd Sindhi
se sme Northern_Sami Sami Davvisámegiella
si sin Sinhala Sinhalese සිංහල
sk slk slo Slovak Slovenčina Slovensky
sl slv Slovenian Slovene Slovenščina
so som Somali Soomaali
sq sqi alb Albanian Shqip
sr srp Serbian Српски Srpski
su sun Sundanese
sv swe Swedish Svenska
sw swa Swahili Kiswahili
ta tam Tamil தமிழ்
te tel Telugu తెలుగు
tg tgk Tajik Тоҷикӣ
th tha Thai ไทย ภาษาไทย
ti tir Tigrinya ትግርኛ
tk tuk Turkmen Türkmençe
tl tgl Tagalog
tr tur Turkish Türkçe
tt tat Tatar Татарча
ug uig Uyghur Uighur
uk ukr Ukrainian Українська
ur urd Urdu اردو
uz uzb Uzbek Oʻzbekcha O'zbekcha
vi vie Vietnamese Tiếng_Việt
wo wol Wolof
xh xho Xhosa isiXhosa
yi yid Yiddish ייִדיש
yo yor Yoruba Yorùbá
yue Cantonese 粵語 廣東話
zh zho chi cmn Chinese Mandarin 中文 汉语 漢語 简体中文 繁體中文 繁体中文 Simplified_Chinese Traditional_Chinese
zu zul Zulu isiZulu
"""
_REGION = re.compile(r"(\w{2,3})[-_](?:[a-z]{2}|[a-z]{4}|[0-9]{3})(?:[-_][a-z0-9]+)*")  # of a name in small letters
_BESIDE = frozenset(  # words that may stand beside a language's name: "German sentence", "text_de", "US English"
    "source target src tgt trg text texts sentence sentences segment segments string strings translation column "
    "language lang british american us uk brazilian european simplified traditional modern standard".split()
)


def _small(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _codes() -> dict[str, str]:
    found: dict[str, str] = {}
    for row in filter(None, _TABLE.split("\n")):
        code, *names = row.split(" ")
        found |= {_small(name.replace("_", " ")): code for name in (code, *names)}
    return found


_CODES = _codes()


def language_of(name: str) -> str | None:
    """Returns the code, without region, of a language's name or code in any case; None if it is neither."""
    name = _small(name)
    if (found := _CODES.get(name)) is not None:
        return found
    if region := _REGION.fullmatch(name):
        return _CODES.get(region[1])
    if brackets := re.fullmatch(r"(.+?) ?\(.+\)", name):  # Portuguese (Brazil)
        return language_of(brackets[1]) or language_of(name[len(brackets[1]) :].strip(" ()"))
    words = [word for word in re.split(r"[\W_]+", name) if word and word not in _BESIDE]
    return _CODES.get(words[0]) if len(words) == 1 else None


def is_name(name: str) -> bool:
    """Whether a text is a language's name or a code with a region, not only two or three letters, which words have."""
    return len(name.strip()) > 3 and language_of(name) is not None


def same_language(name: str, code: str) -> bool:
    """Whether a language's name or code means the language of a code, regions aside."""
    base = base_language(code)
    return language_of(name) in (base, _CODES.get(base, base))
