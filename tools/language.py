"""Check the wording of the project: banned phrases, duplicate class names and long test names.

`make check` runs this. `docs/glossary.md` has the terms to use instead.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".sql", ".html", ".js", ".css", ".md", ".toml", ".txt"}
# This file names the phrases, bounce_phrases.py has the words of other servers, and the lock file is generated.
EXCLUDED = {
    "tools/language.py",
    "src/mailwright/domain/bounce_phrases.py",
    "requirements.lock",
    "docs/openapi.json",
}
MAX_TEST_NAME_WORDS = 10

# Phrase → what to write instead. Phrases match whole words, in any case.
BANNED = {
    r"who(m)?ever": "if someone, the contact that, anyone who",
    r"anew": "again",
    r"nought": "zero",
    r"so many": "N, at most N",
    r"once more(?! than)": "again, retry",
    r"(is|are|was|were|be|been|being|gets|get) told": "is reported, recorded, notified",
    r"told (of|by|what|why|in|as)": "reported, recorded",
    r"tells (whether|what|why|of|how|who|which)": "shows, reports, states",
    r"written to(?=[.,;:)\"]|$)": "receives email, stored in",
    r"way out": "unsubscribe link",
    r"at a glance": "summary",
    r"deeds?": "action, audit entry",
    r"portions?": "batch",
    r"(?<!dead )(?<!dead-)(?<!dead_)letters?(?! ?of the alphabet|,? (and|or)? ?digits?)": "email, message",
    r"mails?": "email, message",
    r"in small company": "in small batches",
    r"the (whole )?road": "the path of a message",
    r"for good": "permanently",
    r"by themselves": "automatically",
    r"rainy day": "say what happens",
    r"journals?": "audit log",
    r"(a|wrong|many|of|these) guess(es)?": "failed sign-in",
    r"fates?": "outcome, state",
    r"how it stands": "its status",
    r"stands? back": "is deferred",
}
# Where a banned word is the right one: protocols, products, characters of the alphabet, and names that clients use
# (routes, JSON fields, stored keys).
ALLOWED = re.compile(
    r"journal[_ ]mode|/journal\b|.journal.: .audit-log.|.journal. is .audit|journal(,| =) conn"
    r"|mail (server|client|transfer|transport|program|system|failure|delivery)|junk mail|Apple Mail|e-mail|\*Mail Send"
    r"|mailto|mail_from|Mail::DKIM|(?-i:\bMAIL\b)|Return-Path|\bmail\.[a-z]*\.?(example|css|send|py|html|gmail|_domainkey|ru)"
    r"|mail/(progress|send)|[/~]mail\b|hooks/mail|mail-(light|dark)|[\"']mails?[\"']|to view a mail"
    r"|mails=len\(messages\)|mails: list\[Test|TestResponse\(mails=|(SELECTOR|_selector)=.?mail"
    r"|timeouts\.mail|mail: float|mail transaction"
    r"|\?:(in\|)?mail|\|mail\)|e\?mail|(returned|delayed|rejected) mail|mail could not be"
    r"|capital letters?|ASCII letters|[0-9]+ letters|letters of other|(sixteen|smaller|Other) letters|make a letter"
    r"|with a letter|numbers, (then )?.?letters|.letters.: .a.|KEY_PREFIX = .letter."
    r"|fate: Annotated|.fate.\]|deeds: list|deeds=found|.deeds.|for good replies"
    # Test data: replies of servers, texts of emails, names in other libraries.
    r"|your mail (looks|did)|too many mails|mail at a rate|takes no mail|rate of mail|text of our mail|deliver mail"
    r"|this mail as a member|(message: |-> |return |import |From, )Mail\b|helpers\.mail|email,Mail|:mail\"|\[mail\]"
    r"|mail=(0|st)|\.mail\(|django\.core\.mail",
    re.IGNORECASE,
)


def main() -> None:
    problems = [*banned_phrases(), *duplicate_classes(), *long_test_names()]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} wording problems. See docs/glossary.md.")


def banned_phrases() -> Iterator[str]:
    pattern = re.compile(rf"(?<![\w-])({'|'.join(BANNED)})(?![\w-])", re.IGNORECASE)
    for path in _files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for match in pattern.finditer(line):
                context = line[max(0, match.start() - 14) : match.end() + 14]
                if not ALLOWED.search(context):
                    yield f"{_name(path)}:{number}: “{match[0]}” → {_replacement(match[0])}"


def duplicate_classes() -> Iterator[str]:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted((CHECKOUT / "src" / "mailwright").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(_name(path))
    for name, found in sorted(places.items()):
        if len(found) > 1:
            yield f"class {name} is defined in {', '.join(found)}: give each concept its own name"


def long_test_names() -> Iterator[str]:
    for path in sorted((CHECKOUT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                words = node.name.removeprefix("test_").split("_")
                if len(words) > MAX_TEST_NAME_WORDS:
                    yield f"{_name(path)}:{node.lineno}: {node.name} has more than {MAX_TEST_NAME_WORDS} words"


def _files() -> Iterable[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = CHECKOUT / name
        if path.suffix in SUFFIXES and name not in EXCLUDED and path.is_file():
            yield path


def _replacement(phrase: str) -> str:
    return next(instead for banned, instead in BANNED.items() if re.fullmatch(banned, phrase, re.IGNORECASE))


def _name(path: Path) -> str:
    return path.relative_to(CHECKOUT).as_posix()


if __name__ == "__main__":
    main()
