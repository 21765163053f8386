#!/usr/bin/env python3
# Copyright (C) 2026 The Linnet authors. SPDX-License-Identifier: GPL-3.0-or-later
"""A text corpus of many genres for the study, from Debian documentation packages: the same packages give the same bytes.

usage: make_corpus.py OUTDIR

Downloads what OUTDIR/packages lacks (apt-get download), and writes OUTDIR/study.jsonl, one {"text", "genre"} a line, and
OUTDIR/study.json, what is in it. A package that can't be had is named and left out; fewer than 10 genres end with status 1.

Every genre gives an equal number of characters, or all that it has, and is spread evenly over the whole file: so every
stretch of the file is the same mixture, whether a slice is cut from the front or, as splitSlices does, dealt from all of it.
Within a genre, documents come in the order of the hash of their text and a seed.
"""

import fnmatch
import gzip
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from html.parser import HTMLParser

SEED = "linnet study 1"
TOTAL_CHARACTERS = 20_000_000
LONGEST, SHORTEST = 12_000, 600  # characters of a document; a longer one is cut after its last whole paragraph
PIECE = 8_000                    # short entries are joined to documents of about so many characters
ASCII_SHARE = 0.95
REPEATED = 120                   # a paragraph of so many characters is kept once in the whole corpus
SMALLEST_GENRE = 300_000         # characters; a smaller one is left out
FEWEST_GENRES = 10
FRONT = 2_000_000


# ---- HTML and Mallard pages ----

class Page(HTMLParser):
    """The text of a page without its navigation; `pre` keeps its line ends."""

    PARAGRAPHS = set("p div pre screen h1 h2 h3 h4 h5 h6 table ul ol dl blockquote section title terms steps list note".split())
    LINES = set("li tr dt dd br item caption".split())
    CELLS = set("td th".split())
    SKIPPED = set("head script style nav footer header aside noscript button select info media svg math".split())
    SKIPPED_NAMES = set("navheader navfooter related sphinxsidebar headerlink footer #footer header toc #toc toctree-wrapper contents docnav "
                        "relatedtopics relatedbody howtoget #banner MAC indexterm mobile-nav nav-panel clearer copyright legalnotice "
                        "revhistory editsection list-of-tables list-of-figures list-of-examples".split())  # classes and, with #, identifiers

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts = []
        self.skipping = None  # [tag, how many of it are open]
        self.verbatim = self.cells = 0  # how many of them are open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if self.skipping:
            self.skipping[1] += tag == self.skipping[0]
            return
        names = set((attrs.get("class") or "").split()) | {"#" + (attrs.get("id") or "")}
        # A void element would never be closed.
        if tag in self.SKIPPED or (names & self.SKIPPED_NAMES and tag not in ("body", "html", "hr", "img", "input", "link")):
            self.skipping = [tag, 1]
            return
        self.verbatim += tag in ("pre", "screen")
        self.cells += tag in self.CELLS
        self.separate(tag)

    def handle_endtag(self, tag):
        if self.skipping:
            self.skipping[1] -= tag == self.skipping[0]
            if self.skipping[1] == 0:
                self.skipping = None
            return
        self.verbatim = max(0, self.verbatim - (tag in ("pre", "screen")))
        self.separate(tag)
        self.cells = 0 if tag == "table" else max(0, self.cells - (tag in self.CELLS))

    def separate(self, tag):
        if tag in self.CELLS or (self.cells and tag in ("p", "div")):
            if self.parts and not self.parts[-1].endswith((" ", "\n")):
                self.parts.append(" ")  # a row of a table is one line
        elif tag in self.PARAGRAPHS:
            self.parts.append("\n\n")
        elif tag in self.LINES:
            self.parts.append("\n")

    def handle_data(self, data):
        if self.skipping:
            return
        if not self.verbatim:
            data = re.sub(r"\s+", " ", data)
            if self.parts and self.parts[-1].endswith((" ", "\n")):
                data = data.lstrip(" ")
        if data:
            self.parts.append(data)


def html_page(content):
    page = Page()
    page.feed(content)
    page.close()
    yield "".join(page.parts)


# ---- manual pages ----

ROFF_CHARACTERS = {"aq": "'", "cq": "'", "oq": "'", "dq": '"', "lq": '"', "rq": '"', "bu": "*", "em": "--", "en": "-", "hy": "-", "mi": "-",
                   "mu": "x", "ti": "~", "ha": "^", "rs": "\\", "ga": "`", "co": "(C)", "<=": "<=", ">=": ">=", "!=": "!=", "->": "->",
                   "<-": "<-", "+-": "+/-", "la": "<", "ra": ">", "at": "@", "sh": "#", "Do": "$", "ba": "|", "or": "|", "lB": "[", "rB": "]",
                   "lC": "{", "rC": "}", "sl": "/", "de": " degrees", "pc": ".", "ss": "ss", "if": "infinity", "14": "1/4", "12": "1/2",
                   "34": "3/4", "sc": "Section ", "rg": "(R)", "tm": "(TM)", "eq": "=", "pl": "+", "==": "=="}


def roff_line(line):
    """One line without its escapes."""
    line = re.sub(r'\\["#].*', "", line)
    line = re.sub(r"\\\((..)|\\\[([^\]]*)\]", lambda m: ROFF_CHARACTERS.get(m.group(1) or m.group(2), ""), line)
    line = re.sub(r"\\f(?:\[[^\]]*\]|\(..|.)|\\s[+-]?\d+|\\[hvwkouzlLD]'[^']*'|\\m\[[^\]]*\]|\\n(?:\[[^\]]*\]|\(..|.)", "", line)
    line = re.sub(r"\\\*(?:\[[^\]]*\]|\(..|.)", lambda m: {"(lq": '"', "(rq": '"', "R": "(R)", "(Tm": "(TM)"}.get(m.group(0)[2:], ""), line)
    line = re.sub(r"\\[&|^%:/,c{}d!?]", "", line)
    line = re.sub(r"\\[0~ ]", " ", line)
    return re.sub(r"\\(.)", lambda m: {"e": "\\", "t": " ", "-": "-"}.get(m.group(1), m.group(1)), line)


def roff_arguments(rest):
    words = re.findall(r'"((?:[^"]|"")*)"?|((?:\\.|[^\s\\])+)', rest)
    return [roff_line((quoted or plain).replace('""', '"')) for quoted, plain in words]


def manual_page(content):
    """man(7) only; an mdoc page or a link to another page gives nothing."""
    content = re.sub(r"\\\n", "", content)
    if re.search(r"^\.(?:so|Dd) ", content, re.M):
        return
    out = []  # finished lines; a filled line is joined to the one before it
    filled, tag, hidden, table = True, 0, None, 0

    def add(text):
        nonlocal tag
        if filled and out and out[-1] and text and not tag:
            out[-1] += " " + text
        else:
            out.append(text)
        if tag:
            tag = 0
            out.append("")  # a tag stands on its own line

    def blank():
        if out and out[-1]:
            out.append("")

    for line in content.split("\n"):
        if hidden is not None:  # .de, .ig, the options of a table
            if line.startswith(hidden) or (hidden == "T." and line.rstrip().endswith(".")):
                hidden = None
            continue
        if not line.startswith((".", "'")):
            if table:
                line = " ".join(line.replace("T{", "").replace("T}", "").split("\t"))
                if line.strip() not in ("", "_", "="):
                    out.append(roff_line(line).strip())
            elif line.strip():
                add(roff_line(line.rstrip()) if not filled else roff_line(line).strip())
            else:
                blank()
            continue
        name, _, rest = line[1:].strip().partition(" ")
        if name in ("de", "de1", "ig"):
            hidden = ".."
        elif name == "TS":
            blank()
            hidden, table = "T.", 1
        elif name == "TE":
            table = 0
            blank()
        elif name in ("SH", "SS"):
            blank()
            filled = True
            out.extend([" ".join(roff_arguments(rest)), ""])
        elif name in ("PP", "P", "LP", "sp", "HP", "RS", "RE"):
            blank()
        elif name in ("TP", "TQ"):
            blank()
            tag = 1
        elif name == "IP":
            blank()
            word = (roff_arguments(rest) or [""])[0]
            if word:
                out.append(word)
        elif name in ("nf", "EX", "fi", "EE"):
            blank()
            filled = name in ("fi", "EE")
        elif name in ("B", "I", "SM", "SB"):
            if rest:
                add(" ".join(roff_arguments(rest)))
        elif re.fullmatch(r"[BIR][BIR]|SM", name):
            add("".join(roff_arguments(rest)))
        elif name in ("UR", "MT"):
            add("".join(roff_arguments(rest)))
        elif name in ("UE", "ME") and rest and out:
            out[-1] += "".join(roff_arguments(rest))
        elif name == "br" and filled:
            out.append("")
    yield "\n".join(out)


# ---- Perl pod ----

POD_ENTITIES = {"lt": "<", "gt": ">", "verbar": "|", "sol": "/"}
HIDE, SHOW = str.maketrans("<>", "\x01\x02"), str.maketrans("\x01\x02", "<>")


def pod_code(letter, body):
    """What is read of a code such as B<body>, its own brackets hidden from the search for codes around it."""
    if letter in "XZ":
        return ""
    if letter == "E":
        body = POD_ENTITIES.get(body, "")
    if letter == "L":
        body = body.split("|")[0].replace("/", " ").replace('"', "").strip()
    return body.translate(HIDE)


def pod_text(text):
    text = re.sub(r"\b([A-Z])<<+\s+(.*?)\s+>>+", lambda m: pod_code(m.group(1), m.group(2)), text, flags=re.S)
    changed = 1
    while changed:  # from the innermost code outwards
        text, changed = re.subn(r"([A-Z])<([^<>]*)>", lambda m: pod_code(m.group(1), m.group(2)), text)
    return text.translate(SHOW)


def pod_page(content):
    out, shown, inside = [], False, False
    for block in re.split(r"\n[ \t]*\n", content.replace("\r", "")):
        block = block.strip("\n")
        command = re.match(r"=(\w+)\s*(.*)", block, re.S)
        if command:
            name, rest = command.groups()
            shown = name != "cut"
            inside = name == "begin" or (inside and name != "end")
            if re.fullmatch("head[1-6]|item", name) and not inside and rest.strip() != "*":
                out.append(pod_text(" ".join(rest.split())))
        elif shown and not inside:
            out.append(block if block.startswith((" ", "\t")) else pod_text(" ".join(block.split())))
    yield "\n\n".join(out)


# ---- short entries: quotes, jargon, dictionary ----

def joined(entries):
    """Neighbouring entries as documents of about PIECE characters."""
    held, size = [], 0
    for entry in entries:
        held.append(entry)
        size += len(entry)
        if size >= PIECE:
            yield "\n\n".join(held)
            held, size = [], 0
    yield "\n\n".join(held)


def fortune_file(content):
    quotes = re.split(r"^%.*\n", re.sub(r".\x08", "", content), flags=re.M)
    return joined(q.strip("\n") for q in quotes if len(q) > 40)


def jargon_file(content):
    content = re.sub(r"^ {3}", "", content, flags=re.M)
    paragraphs = [p for p in content.split("\n\n") if len(p.split()) > 3 or p.startswith(":")]  # the others list the head words
    return joined(paragraphs)


def gcide(content):
    """The Collaborative International Dictionary; the tag that names an entry's source says nothing."""
    content = re.sub(r"\n\s*\[(?:1913 Webster|PJC|WordNet 1\.5|Century Dict\. 1906|[^\]\n]{0,40}(?:Webster|PJC|WordNet)[^\]\n]{0,40})\]", "", content)
    entries = [e for e in re.split(r"\n\s*\n(?=\S)", content) if not e.startswith("00-database")]
    return joined(entries[100:])  # the first ones describe the database


# ---- games' dialogue ----

def wesnoth_scenario(content):
    """What is said and told in a scenario, in its order, as `Speaker: words`."""
    nobody = {"narrator", "unit", "second_unit", ""}
    quoted = r'"((?:[^"]|"")*)"'
    text = rf'(?:message|story|text|description)\s*=\s*_\s*{quoted}((?:\s*\+\s*_?\s*"(?:[^"]|"")*")*)'
    out, speaker = [], ""
    for m in re.finditer(rf'\[message\]|^\s*speaker\s*=\s*(.*)$|{text}', content, re.M):
        if m.group(2) is None:
            speaker = (m.group(1) or "").strip().strip('"')
            continue
        words = m.group(2) + "".join(re.findall(quoted, m.group(3)))
        words = re.sub(r"^[\w ]*\^", "", words.replace('""', '"'))
        words = re.sub(r"\$([\w.]+)\|?", lambda v: v.group(1).split(".")[-1], re.sub(r"<[^<>]*>", "", words))
        words = re.sub(r"\s+", " ", words).strip()
        if words:
            out.append(words if speaker in nobody or "$" in speaker else f"{speaker}: {words}")
        speaker = ""
    yield "\n\n".join(out)


def endless_sky(content):
    """Conversations and descriptions; lists of names and of single phrases are passed over."""
    stories = []
    for block in re.split(r"\n(?=[a-z])", content):
        if re.match(r"phrase|news|fleet|ship|effect|interface|names|color|#", block):
            continue
        words = [a or b for a, b in re.findall(r'`([^`]+)`|(?:description|dialog|spaceport) "([^"\n]+)"', block)]
        words = [re.sub(r"<([\w ]+)>", r"\1", w.strip()) for w in words]
        if words:
            stories.append("\n\n".join(words))
    return joined(stories)


# ---- the World English Bible, a module of the SWORD library ----

def sword_module(path):
    """A chapter is a document. PATH.bzs: offset, packed and unpacked size of each zlib block (a book) in PATH.bzz."""
    with open(path, "rb") as f:
        packed = f.read()
    with open(path.removesuffix(".bzz") + ".bzs", "rb") as f:
        index = f.read()
    for offset, size, _ in struct.iter_unpack("<III", index):
        book = zlib.decompress(packed[offset:offset + size]).decode("utf-8") if size else ""
        for chapter in re.split(r"<chapter [^>]*(?=sID=)", book)[1:]:
            name = re.match(r'sID="(\w+)\.(\d+)"', chapter)
            text = re.sub(r"<note\b.*?</note>|<title\b.*?</title>", "", chapter, flags=re.S)
            text = re.sub(r'<div [^>]*type="x-p"[^>]*>|<l\b[^>]*>|<lb[^>]*>', "\n", text)
            text = re.sub(r"<[^>]*>", "", text.partition(">")[2])
            lines = [" ".join(line.split()) for line in text.split("\n")]
            yield (f"{name.group(1)} {name.group(2)}\n\n" if name else "") + "\n".join(line for line in lines if line)


# ---- genres ----

# (package, pattern of the paths in it, reader); a reader takes the decoded content, sword_module the path.
CAMPAIGNS = "did dm dw ei httt l low nr sof sota sotbe thot trow tsg ttb utbs".split()
GENRES = {
    "essay": [("anarchism", "*/html/*.html", html_page)],
    "handbook": [("debian-handbook", "*/html/en-US/*.html", html_page), ("installation-guide-amd64", "*/en/*.html", html_page),
                 ("aptitude-doc-en", "*.html", html_page), ("debian-kernel-handbook", "*.html", html_page),
                 ("live-manual-html", "*/live-manual/*.en.html", html_page)],
    "help": [("gnome-user-docs", "*/help/C/*.page", html_page), ("libreoffice-help-en-us", "*/help/en-US/text/*.html", html_page)],
    "postgresql": [("postgresql-doc-15", "*.html", html_page)],
    "python": [("python3.11-doc", "*/html/*.html", html_page)],
    "git": [("git-doc", "*.html", html_page)],
    "perl": [("perl-doc", "*.pod", pod_page)],
    "man": [("manpages", "*/share/man/man?/*.gz", manual_page), ("manpages-dev", "*/share/man/man?/*.gz", manual_page)],
    "debian": [("harden-doc", "*/en-US/*.html", html_page), ("debian-history", "*.en.html", html_page),
               ("debian-reference-en", "*.en.html", html_page), ("debian-faq", "*.en.html", html_page),
               ("developers-reference", "*.html", html_page), ("debian-policy", "*.html", html_page),
               ("maint-guide", "*.en.html", html_page), ("debmake-doc", "*.en.html", html_page)],
    "octave": [("octave-doc", "*.html", html_page)],
    "quotes": [("fortunes", "*/games/fortunes/[a-z]*", fortune_file), ("fortunes-min", "*/games/fortunes/[a-z]*", fortune_file)],
    "fiction": [(f"wesnoth-1.16-{c}", "*.cfg", wesnoth_scenario) for c in CAMPAIGNS] + [("endless-sky-data", "*/data/*.txt", endless_sky)],
    "jargon": [("jargon-text", "*/jargon.txt.gz", jargon_file)],
    "dictionary": [("dict-gcide", "*.dict.dz", gcide)],
    "bible": [("sword-text-web", "*.bzz", sword_module)],
}
# Lists of links, indexes and duplicates of other pages.
PASSED_OVER = ["*/genindex*", "*/index.html", "*/bookindex.html", "*/search.html", "*/contents.html", "*-Index.html",
               "*/biblio.html", "*links.html", "*/translations.html", "*.dat", "*.u8", "*/ascii-art", "*/translate-me", "*/names.txt"]


def fail(message):
    sys.exit(f"make_corpus.py: {message}")


def package_file(folder, name):
    """The package's file in `folder`, downloaded if it isn't there; None if it can't be had."""
    def found():
        return sorted(f for f in os.listdir(folder) if f.startswith(name + "_") and f.endswith(".deb"))
    if not found():
        result = subprocess.run(["apt-get", "download", "-q", name], cwd=folder, capture_output=True, text=True)
        if result.returncode != 0 or not found():
            reason = (result.stderr.strip().splitlines() or ["no reason given"])[-1]
            print(f"make_corpus.py: package {name} left out: {reason}", file=sys.stderr)
            return None
    return os.path.join(folder, found()[-1])


def matching_files(root, pattern):
    paths = []
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            inside = path[len(root):]
            if fnmatch.fnmatchcase(inside, pattern) and not any(fnmatch.fnmatchcase(inside, p) for p in PASSED_OVER) and not os.path.islink(path):
                paths.append(path)
    return sorted(paths)


def read_text(path):
    with open(path, "rb") as f:
        content = f.read()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def documents_of(package, pattern, reader):
    with tempfile.TemporaryDirectory(prefix="make_corpus.") as root:
        subprocess.run(["dpkg", "-x", package, root], check=True)
        for path in matching_files(root, pattern):
            yield from reader(path if reader is sword_module else read_text(path))


# ---- cleaning and choosing ----

def cleaned(text):
    text = re.sub(r"[\u200b-\u200f\u2028\u2029\ufeff\u00ad\u00b6]", "", text.replace("\u00a0", " ").replace("\r", "")).expandtabs(8)
    text = re.sub(r"[\ufffd\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text)
    lines = []
    for line in text.split("\n"):
        if re.fullmatch(r"\W{4,}", line.strip() or "x"):
            line = ""  # a rule
        words = " ".join(line.split())
        indent = len(line) - len(line.lstrip(" "))
        lines.append(" " * min(indent, 12) * bool(words) + words)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def cut(text):
    if len(text) <= LONGEST:
        return text
    return text[:max(text.rfind("\n\n", 0, LONGEST), text.rfind("\n", LONGEST // 2, LONGEST), LONGEST // 2)].rstrip()


def without_repeats(text, seen):
    """The text less the longer paragraphs of `seen`, into which its own go: they would stand in two slices."""
    kept = []
    for paragraph in text.split("\n\n"):
        if len(paragraph) >= REPEATED:
            key = hashlib.sha256(" ".join(paragraph.split()).encode()).digest()[:12]
            if key in seen:
                continue
            seen.add(key)
        kept.append(paragraph)
    return "\n\n".join(kept)


def usable(text):
    return len(text) >= SHORTEST and sum(map(str.isascii, text)) >= ASCII_SHARE * len(text)


def gather(packages):
    """Genre to documents, in the seeded order; the packages used go to `packages`: file name to SHA-256."""
    seen, genres = set(), {}
    for genre, sources in GENRES.items():
        documents = []
        for name, pattern, reader in sources:
            file = package_file(packages["folder"], name)
            if file is None:
                packages["left_out"].append(name)
                continue
            with open(file, "rb") as f:
                packages["used"][os.path.basename(file)] = hashlib.sha256(f.read()).hexdigest()
            for raw in documents_of(file, pattern, reader):
                text = without_repeats(cut(cleaned(raw)), seen)
                if usable(text):
                    documents.append(text)
        size = sum(map(len, documents))
        if size < SMALLEST_GENRE:
            print(f"make_corpus.py: genre {genre} left out: {size} characters, needs {SMALLEST_GENRE}", file=sys.stderr)
            continue
        genres[genre] = sorted(documents, key=lambda text: hashlib.sha256((SEED + text).encode()).digest())
    return genres


def chosen(genres):
    """Of each genre an equal share of TOTAL_CHARACTERS; what a small genre lacks is shared out among the larger ones."""
    left, result = TOTAL_CHARACTERS, {}
    by_size = sorted(genres, key=lambda g: (sum(map(len, genres[g])), g))
    for i, genre in enumerate(by_size):
        share, taken, size = left // (len(by_size) - i), [], 0
        for text in genres[genre]:
            if size >= share:
                break
            taken.append(text)
            size += len(text)
        result[genre] = taken
        left -= size
    return {genre: result[genre] for genre in genres}


def mixed(genres):
    """(genre, text) in the file's order: the genre that has given the smallest part of its own comes next."""
    totals = {g: sum(map(len, d)) for g, d in genres.items()}
    given, position = dict.fromkeys(genres, 0), dict.fromkeys(genres, 0)
    while True:
        waiting = [g for g in genres if position[g] < len(genres[g])]
        if not waiting:
            return
        # Half of the document counts, so that a genre of long ones is early as often as late.
        genre = min(waiting, key=lambda g: (given[g] + len(genres[g][position[g]]) / 2) / totals[g])
        text = genres[genre][position[genre]]
        position[genre] += 1
        given[genre] += len(text)
        yield genre, text


def characters(corpus, start, end):
    """Characters of each genre between two places of the joined text."""
    counts, at = {}, 0
    for genre, text in corpus:
        counts[genre] = counts.get(genre, 0) + max(0, min(end, at + len(text)) - max(start, at))
        at += len(text)
    return counts


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        fail("usage: make_corpus.py OUTDIR")
    folder = sys.argv[1]
    packages = {"folder": os.path.join(folder, "packages"), "used": {}, "left_out": []}
    os.makedirs(packages["folder"], exist_ok=True)
    genres = gather(packages)
    if len(genres) < FEWEST_GENRES:
        fail(f"found {len(genres)} genres ({', '.join(genres)}), expected at least {FEWEST_GENRES}; is there a network, and was apt-get update run?")
    corpus = list(mixed(chosen(genres)))
    lines = "".join(json.dumps({"text": text, "genre": genre}, ensure_ascii=False) + "\n" for genre, text in corpus).encode()
    with open(os.path.join(folder, "study.jsonl"), "wb") as f:
        f.write(lines)

    total = sum(len(text) for _, text in corpus)
    summary = {
        "seed": SEED, "sha256": hashlib.sha256(lines).hexdigest(), "documents": len(corpus), "characters": total,
        "genres": {g: {"documents": sum(genre == g for genre, _ in corpus), "characters": sum(len(t) for genre, t in corpus if genre == g),
                       "available": sum(map(len, genres[g]))} for g in genres},
        "front": {"characters": FRONT, "genres": characters(corpus, 0, FRONT)},
        "tenths": [characters(corpus, total * i // 10, total * (i + 1) // 10) for i in range(10)],
        "packages": packages["used"], "left_out": packages["left_out"],
    }
    with open(os.path.join(folder, "study.json"), "w") as f:
        f.write(json.dumps(summary, indent=1) + "\n")
    for genre, counts in summary["genres"].items():
        print(f"{genre:12} {counts['documents']:5} documents {counts['characters']:9} characters of {counts['available']}")
    print(f"{'total':12} {len(corpus):5} documents {total:9} characters, sha256 {summary['sha256']}")


if __name__ == "__main__":
    main()
