"""Texts that tokenizers get wrong: many scripts, normal forms, white space, digits, contractions, special tokens, long words."""
import random

WRITTEN = [
    "", " ", "  ", "\n", "\n\n", "\r\n", "\r", "\t", "\t\t a", " \n ", "  \n  \n", "\r\n\r\n  x", "a\r\nb\r\n", "\0", "a\0b", "\0\0",
    "Hello world", "Hello  world", "Hello   world ", " leading", "trailing   ", "a b  c   d    e", "tab\tseparated\tvalues",
    "def f(x):\n    return x  # comment\n\n\n", "if (a<b && c>d) { x+=1; }", "https://example.org/a?b=c&d=%20#e", "a_b__c___d",
    "1", "12", "123", "1234", "12345", "1234567890", "3.14159", "1,234,567.89", "1e-10", "x1y2z3", "2026-11-29T19:04:02Z", "0x1F",
    "²³¹", "½ cup", "Ⅷ Ⅳ", "٣٤٥", "१२३४", "一二三", "①②③", "1²", "12½3", "𝟘𝟙𝟚", "৩৪",
    "it's", "IT'S", "I'm I'M", "we're WE'RE", "they've THEY'VE", "I'll I'LL", "he'd HE'D", "don't DON'T", "'s", "'S", "' s", "''s",
    "it’s", "don’t we’ll", "'ſ", "a'ſb", "o'clock", "rock'n'roll", "'tis 'twas", "'lll", "'LL", "'rE", "x'Ve", "'d'd'd", "’S",
    "é", "é", "é é", "Å Å Å", "ñ", "ñ", "ạ̈", "ạ̈", "ﬁ ﬂ ﬀ", "ſ", "한국어", "한국어", "각", "각", "ệ", "ệ",
    "q̣̇", "q̣̇", "Ω Ω", "K K", "à́̂̃", "́", "ác", " ́", "1́", "ẛ̣", "שּׁ", "क़", "क़", "ৡ", "ো",
    "😀", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "🏳️‍🌈", "a😀b", "❤️", "☺☻", "👨‍💻 codes", "😀😀😀😀", "\u200d", "a\u200db", "\ufe0f",
    "Привет, мир!", "Ελληνικά κείμενο", "שלום עולם", "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "你好，世界！", "こんにちは世界", "カタカナ ｶﾀｶﾅ",
    "안녕하세요 세계", "Xin chào thế giới", "ગુજરાતી", "தமிழ்", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "සිංහල", "မြန်မာ", "ខ្មែរ", "ລາວ", "བོད་སྐད", "አማርኛ",
    "ქართული", "Հայերեն", "ᏣᎳᎩ", "ᚠᚢᚦ", "𐍈", "𓀀𓀁", "𝒳𝓎𝔷", "ⴰⵎⴰⵣⵉⵖ", "Ünïcödé Żółć", "İstanbul ıI", "straße STRASSE ẞ", "Ǆ ǅ ǆ",
    "\u202eRTL\u202c", "\u200eL\u200fR", "שלום hello שלום", "\u2066iso\u2069", "עִבְרִית", "اَلْعَرَبِيَّة",
    "\u00a0", "a\u00a0b", "\u2003x", "\u3000全角", "\u2028line\u2029para", "\u0085next", "\u180e", "a\u180eb", "\u200b", "\ufeffBOM",
    " \u00a0 ", "a \u2009b", "\u1680ogham", "\u202f1", "\u205f", "\v\f", "\x0b", "\x0c", "\x1c\x1d\x1e\x1f", "x\x1cy", " \x85 ",
    "\x01\x02\x7f", "\x1b[31mred\x1b[0m", "\x80\x9f", "\ufffd", "\ufffe", "\uffff", "\U0010ffff", "\ud7ff\ue000", "\ufdd0", "\U000e0001",
    "!!!", "...", "…", "—–-", "“quoted” ‘single’", "«guillemets»", "$100 €50 £20 ¥10", "a+b=c", "~`!@#$%^&*()_+-={}[]|\\:\";'<>?,./",
    "!\n", "!\r\n", "?\n\n!", ";\n  }", " !\n", "a!\n\nb", "*** \n***", "#\n\n\n", "\n!", "-\t\n-", "。\n", "...\r\r\n...",
    "a" * 1000, "ab" * 3000, " " * 500, "\n" * 300, "é" * 200, "😀" * 100, "1" * 100, "=" * 256, " a" * 400, "\t" * 77, "x\n" * 50,
    "Donaudampfschifffahrtsgesellschaftskapitän", "supercalifragilisticexpialidocious", "aAaAaA", "camelCaseWordsHERE", "ALLCAPS",
    "   a", "a   ", "    \n   a", "a\n   b", "\n\n\n   \n", "  \t  \t ", "x  \r\n  y", "\u3000 \u3000x", " \n\n \n", "    b", "\t b", "a\t\tb",
]
PIECES = ["the", " of", "Hello", " ", "  ", "\n", "\r\n", "\t", "1", "42", "007", "'s", "'LL", "’t", "é", "e\u0301", "\u0323", "中", "文字",
          "😀", "\u200d", "👩", "ß", "İ", "א", "ب", "क", "\u094d", "ก", "ำ", "한", "ᄒ", "ᅡ", "!", "?!", "--", "_", "\u00a0", "\u3000", "\0", "²", "½",
          "A", "z", ".", ",", "'", "\"", "\x1c", "\u180e", "\u0345", "\u1e9b", "K"]


def texts(special_tokens, seed=1):
    """WRITTEN, the special tokens in every neighbourhood, and random mixtures of all."""
    out = list(WRITTEN)
    for token in special_tokens:
        out += [token, token + token, "a" + token + "b", " " + token + " ", "x  " + token + "\n\t y", token + "é", "1" + token + "2",
                token[:-1], token[1:], token.upper(), token + token[:-1], "é" + token + "\u0301", "\u3000" + token + "\u00a0z"]
    chance = random.Random(seed)
    for length in (2, 3, 5, 8, 13, 40):
        for _ in range(40):
            out.append("".join(chance.choice(PIECES + special_tokens) for _ in range(length)))
    return out


INVALID = [b"\x80", b"a\xffb", b"\xc3", b"\xc3(", b"\xe2\x82", b"\xe2\x82x", b"\xf0\x9f\x98", b"\xf0\x9f\x98 ok", b"\xed\xa0\x80", b"\xed\xa0\x80\xed\xb0\x80",
           b"\xc0\x80", b"\xe0\x80\x80", b"\xf4\x90\x80\x80", b"\xf5\x80", b"\xfe\xff", b"caf\xe9 au lait", b"\xf0\x80\x80\x80z", b"\xe1\x80\xe1\x80\x80"]
