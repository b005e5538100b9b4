"""What a browser makes of the pages' headers: attacks are refused, what the pages need works."""

from pathlib import Path

import pytest
from support.browser import Tab
from support.config import document
from support.process import ServerProcess, server_process

ELSEWHERE = "http://127.0.0.2:9"
"""Another origin; nothing listens there, and nothing should ever try."""
ATTACKS = """
{
  "markup": () => { document.body.innerHTML = "<img src=x onerror=harm()>"; },
  "markup beside": () => document.body.insertAdjacentHTML("beforeend", "<b>x</b>"),
  "inline script": () => add("script", "window.harmed = true", {}),
  "script from elsewhere": () => add("script", "", { src: `${elsewhere}/x.js` }),
  "module from elsewhere": () => import(`${elsewhere}/x.js`),
  "module in an address": () => import("data:text/javascript,window.harmed = true"),
  "text as script": () => later(() => eval("window.harmed = true")),
  "worker": () => new Worker("static/icon.svg"),
  "policy for types": () => trustedTypes.createPolicy("mine", {}),
  "style element": () => add("style", "body { color: red }", {}),
  "style attribute": () => document.body.setAttribute("style", "color: red"),
  "style from elsewhere": () => add("link", "", { rel: "stylesheet", href: `${elsewhere}/x` }),
  "picture from elsewhere": () => add("img", "", { src: `${elsewhere}/secret.png` }),
  "font from elsewhere": () => new FontFace("x", `url(${elsewhere}/x.woff2)`).load(),
  "sound": () => new Audio("health").load(),
  "request to elsewhere": () => fetch(`${elsewhere}/secret`),
  "beacon to elsewhere": () => navigator.sendBeacon(`${elsewhere}/`, "secret"),
  "socket to elsewhere": () => new WebSocket("ws://127.0.0.2:9/"),
  "frame": () => add("iframe", "", { src: "health" }),
  "plugin": () => add("embed", "", { type: "text/html", src: "health" }),
  "another base": () => add("base", "", { href: `${elsewhere}/` }),
  "form": () => add("form", "", { action: "health" }).submit(),
}
"""
"""What an injected text or script might try."""
STOPPED_BY = {
    "markup": "require-trusted-types-for",
    "markup beside": "require-trusted-types-for",
    "inline script": "require-trusted-types-for",
    "script from elsewhere": "require-trusted-types-for",
    "module from elsewhere": "script-src-elem",
    "module in an address": "script-src-elem",
    "text as script": "require-trusted-types-for",
    "worker": "require-trusted-types-for",
    "policy for types": "trusted-types",
    "style element": "style-src-elem",
    "style attribute": "style-src-attr",
    "style from elsewhere": "style-src-elem",
    "picture from elsewhere": "img-src",
    "font from elsewhere": "font-src",
    "sound": "media-src",
    "request to elsewhere": "connect-src",
    "beacon to elsewhere": "connect-src",
    "socket to elsewhere": "connect-src",
    "frame": "frame-src",
    "plugin": "require-trusted-types-for",
    "another base": "base-uri",
    "form": "form-action",
}
"""The directive that the browser names; the first one, where several would."""
TRY_THEM = (
    """
async (elsewhere) => {
  const add = (tag, text, properties) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(text);
    document.body.append(made);
    return made;
  };
  // The inspector may evaluate text, and what it calls may too; what a timer calls may not.
  const later = (work) => new Promise((done, failed) => setTimeout(() => {
    try { done(work()); } catch (error) { failed(error); }
  }));
  const refusal = () => new Promise((resolve) => {
    const heard = (event) => resolve(event.effectiveDirective);
    document.addEventListener("securitypolicyviolation", heard, { once: true });
    setTimeout(resolve, 10_000, "nothing");
  });
  const attacks ="""
    + ATTACKS.rstrip()
    + """;
  const found = {};
  for (const [name, attack] of Object.entries(attacks)) {
    const refused = refusal();
    try { await attack(); } catch { /* refused in place */ }
    found[name] = window.harmed ? "harmed" : await refused;
    await later(() => {}); // a second refusal of the same attack is not one of the next
  }
  return found;
}
"""
)


@pytest.fixture
def home(fresh: Tab, server: ServerProcess) -> Tab:
    """The home page with its policy in force."""
    fresh.page.goto(f"{server.url}/")
    return fresh


def test_attacks_are_refused(home: Tab) -> None:
    """Nothing injected runs, loads, sends or looks; the browser names the rule that stopped it."""
    home.expected.append("")  # the browser complains of every refusal
    assert home.page.evaluate(TRY_THEM, ELSEWHERE) == STOPPED_BY


def test_the_home_page_needs_nothing_that_is_refused(home: Tab) -> None:
    """It loads without an error or a warning; its style and scripts are in use."""
    styled = home.page.evaluate("() => [...document.styleSheets].map((s) => s.cssRules.length)")
    assert len(styled) == 6
    assert all(rules > 0 for rules in styled)
    assert home.page.title() == "ECMWF Aviso - Data Notification Service"


def test_what_pages_need_works(home: Tab) -> None:
    """Styles from script, pictures made on the page, the API, and forms of dialogs."""
    assert home.page.evaluate(
        """
        async () => {
          const loads = async (src) => {
            const picture = new Image();
            picture.src = src;
            await picture.decode();
            return picture.width;
          };
          document.body.style.color = "rgb(1, 2, 3)";
          const drawn = '<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"></svg>';
          const blob = new Blob([drawn], { type: "image/svg+xml" });
          const dialog = document.createElement("dialog");
          const form = document.createElement("form");
          form.method = "dialog";
          dialog.append(form);
          document.body.append(dialog);
          dialog.showModal();
          form.requestSubmit();
          return [
            getComputedStyle(document.body).color,
            await loads(URL.createObjectURL(blob)),
            await loads(`data:image/svg+xml,${encodeURIComponent(drawn)}`),
            (await fetch("health")).status,
            dialog.open,
          ];
        }
        """
    ) == ["rgb(1, 2, 3)", 7, 7, 200, False]


@pytest.mark.parametrize("path", ["/", "/swagger-ui/"])
def test_no_page_can_put_ours_in_a_frame(fresh: Tab, server: ServerProcess, path: str) -> None:
    """A click on another site's page is never a click on ours."""
    fresh.expected.append("frame-ancestors 'none'")
    fresh.page.goto(f"{server.url}/health")
    with fresh.page.expect_console_message(lambda said: "frame-ancestors 'none'" in said.text):
        fresh.page.evaluate(
            "(url) => { const frame = document.createElement('iframe');"
            " frame.src = url; document.body.append(frame); }",
            server.url + path,
        )


def test_a_page_that_opens_ours_has_no_hold_on_it(fresh: Tab, server: ServerProcess) -> None:
    """The opener's reference is cut, so that it cannot send our page elsewhere later."""
    fresh.page.goto("about:blank")
    with fresh.context.expect_page() as popup:
        fresh.page.evaluate("(url) => { window.other = open(url); }", f"{server.url}/")
    popup.value.wait_for_load_state()
    fresh.page.wait_for_function("() => window.other.closed")
    try:
        assert popup.value.evaluate("() => window.opener") is None
    finally:
        popup.value.close()  # a page behind another is seldom painted


def test_swagger_ui_works_under_its_policy(fresh: Tab, server: ServerProcess) -> None:
    """Operations open, one is tried out, and the browser has nothing to complain about."""
    page = fresh.page
    page.goto(f"{server.url}/swagger-ui/")
    for operation in ("health-health_check", "notification-notify", "streaming-replay"):
        page.locator(f"#operations-{operation} .opblock-summary-control").click()
    health = page.locator("#operations-health-health_check")
    health.locator(".try-out__btn").click()
    health.locator(".execute").click()
    answer = health.locator(".live-responses-table .response-col_description")
    assert '"status": "ok"' in answer.last.inner_text()
    page.locator(".btn.authorize").first.click()
    page.locator(".modal-ux input").first.fill("a-token")
    page.locator(".modal-ux .authorize").first.click()
    page.locator(".modal-ux .btn-done").first.click()
    assert page.locator(".topbar").evaluate(
        "(bar) => getComputedStyle(bar.querySelector('.logo_small_svg__cls-3')).fill"
    ) == ("rgb(133, 234, 45)")


def test_an_operators_page_may_have_inline_scripts(fresh: Tab, tmp_path: Path) -> None:
    """A folder of the operator's own is served without our policy, and works as it did."""
    folder = tmp_path / "static"
    folder.mkdir()
    (folder / "index.html").write_text(
        "<!DOCTYPE html><title>x</title><link rel='icon' href='data:,'>"
        "<body style='color: red'><script>document.title = 'mine {{SERVER_VERSION}}'</script>"
    )
    configured = document({"application": {"static_files_path": str(folder)}})
    with server_process(configured, tmp_path) as running:
        fresh.page.goto(f"{running.url}/")
        assert fresh.page.title().startswith("mine ")
        assert fresh.page.evaluate("() => getComputedStyle(document.body).color") == (
            "rgb(255, 0, 0)"
        )
