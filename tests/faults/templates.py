"""Fuzz the templates of tenants in a process of its own, on a small stack. None may end the process or take long.

`python -m tests.faults.templates SEED COUNT` is that process. It prints the number of each template before it reads it,
so that the number of a template that ends the process is known.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter

from mailwright.content.blocks.compile import compile_template
from mailwright.content.formats import TemplateFormat
from mailwright.content.template import InvalidTemplate, Template
from tests.faults.figures import Figures

# Threads of the server have eight megabytes.
STACK_BYTES = 512 * 1024
SLOW_SECONDS = 10.0
VALUES = {"x": "a" * 200, "y": [1, "b", {"z": 2}], "n": 3, "name": "Ann", "order": {"items": [{"title": "T"}]}}

# Each is one link of a chain. The parser needs stack for every link.
LINKS = ("1+", "x~", "not ", "-", "x and ", "x or ", "1//", "1-", "1 if x else ", "1<", "1==", "x in ", "+")
SUFFIXES = (".b", "|upper", "[0]", " is defined", "()", "|default('')", "[x]", "|list|string", "|replace('a','aa')")
BLOCKS = (
    ("{% if x %}", "{% endif %}"),
    ("{% for i in y %}", "{% endfor %}"),
    ("{% if x %}{% else %}", "{% endif %}"),
    ("{% set x = [x] ~ '' %}", ""),
    ("{% set x = x ~ x %}", ""),
    ("{% for x in [[x]~''] %}", "{% endfor %}"),
    ("{% macro m(a) %}", "{% endmacro %}"),
    ("{% block b %}", "{% endblock %}"),
    ("{% filter upper %}", "{% endfilter %}"),
    ("{% raw %}", "{% endraw %}"),
    ("{#", "#}"),
)
WORDS = (
    *("{{", "}}", "{%", "%}", "{#", "#}", "-%}", "{%-", "if", "elif", "else", "endif", "for", "in", "endfor", "set"),
    *("raw", "endraw", "include", "import", "macro", "x", "y", "n", "range(999)", "range(99999999)", "not", "and"),
    *("is", "(", ")", "[", "]", "{", "}", ".", "|", ",", "~", "+", "-", "*", "**", "//", "/", "=", "==", "'", '"'),
    *("'a'", '"\\""', "\\", "1", "1.5", "1e308", "9" * 30, "0x", "1_0", "\n", "\u00a0", "\x00", "é", "loop", "upper"),
    *("<p>", "</p>", "<table>", "<!--", "-->", "<mj-text>", "</mj-text>", "<style>", "</style>", "<div>", "- ", "> "),
)
LENGTHS = (1, 2, 5, 19, 21, 50, 99, 101, 165, 248, 249, 251, 495, 499, 501, 1_000, 5_000, 17_500, 50_000)


async def run(_engine: str, *, templates: int) -> Figures:
    figures = Figures()
    outcomes = fuzz(seed=random.SystemRandom().randrange(2**32), count=templates)
    figures.note("outcomes", outcomes.most_common())
    figures.expect("templates read", outcomes.total(), f"{templates}", when=outcomes.total() == templates)
    figures.none("crashes", [f"{name}: {count}" for name, count in outcomes.items() if name.startswith("crash")])
    figures.none("unexpected errors", [name for name in outcomes if name.startswith("error")])
    figures.none("slow", [name for name in outcomes if name.startswith("slow")])
    return figures


def fuzz(*, seed: int, count: int) -> Counter[str]:
    """Read `count` templates in a child process. After a crash, a new one continues with the next template."""
    outcomes: Counter[str] = Counter()
    first = 0
    while first < count:
        command = [sys.executable, "-m", "tests.faults.templates", str(seed), str(first), str(count)]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = child.stdout.splitlines()
        outcomes.update(line for line in lines if not line.isdigit())
        first = int(next(line for line in reversed(lines) if line.isdigit())) + 1 if lines else count
        if child.returncode:
            outcomes[f"crash {child.returncode} seed {seed} template {first - 1} {child.stderr[-300:]}"] += 1
    return outcomes


def a_template(chance: random.Random) -> str:
    """Return a template that is a chain, a nest, noise, or all of them mixed."""
    match chance.randrange(7):
        case 0:
            return f"{{{{ {chance.choice(LINKS) * _length(chance)}x }}}}"
        case 1:
            return f"{{{{ x{chance.choice(SUFFIXES) * _length(chance)} }}}}"
        case 2:
            length = _length(chance)
            opening, closing = chance.choice(BLOCKS)
            return opening * length + "{{ x }}" + closing * length
        case 3:
            return f"{{% if x %}}{'{% elif n %}' * _length(chance)}{{% endif %}}"
        case 4:
            opening, closing = chance.choice([("(", ")"), ("[", "]"), ("([", "~'')"), ("-(", ")"), ("not(", ")")])
            length = _length(chance)
            return f"{{{{ {opening * length}x{closing * length} }}}}"
        case 5:
            branches = chance.choice([1, 10, 50, 98])
            opening = "{% if x %}" + "{% elif n %}" * (branches - 1)
            return opening * (100 // branches) + a_template(chance) + "{% endif %}" * (100 // branches)
        case _:
            return " ".join(_noise(chance) for _ in range(chance.randrange(1, 60)))


def _noise(chance: random.Random) -> str:
    word = chance.choice(WORDS) if chance.random() < 0.8 else chance.choice(LINKS + SUFFIXES)
    return word * (_length(chance) if chance.random() < 0.03 else 1)


def _length(chance: random.Random) -> int:
    return chance.choice(LENGTHS)


def _outcome(source: str, template_format: TemplateFormat) -> str:
    started = time.monotonic()
    try:
        html = compile_template(source, template_format)
        template = Template(subject="x", html=html, text=source)
        template.variables, template.required_variables  # noqa: B018 - they render, too
        template.render(VALUES)
        outcome = "rendered"
    except InvalidTemplate:
        outcome = "refused"
    except Exception as error:
        outcome = f"error {type(error).__name__}: {str(error)[:200]} for {source[:300]!r}"
    seconds = time.monotonic() - started
    return outcome if seconds < SLOW_SECONDS else f"slow {seconds:.1f} s for {source[:300]!r}"


def _read_all(seed: int, first: int, count: int) -> None:
    for number in range(first, count):
        print(number, flush=True)
        chance = random.Random(seed * 1_000_003 + number)
        source = a_template(chance)
        print(_outcome(source, chance.choice(list(TemplateFormat))), flush=True)


if __name__ == "__main__":
    threading.stack_size(STACK_BYTES)
    reading = threading.Thread(target=_read_all, args=[int(word) for word in sys.argv[1:]])
    reading.start()
    reading.join()
