"""The page in a real browser: drawn, readable in the dark and on a phone, and without a word to the network."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

from gradsync.draw.html.page import page
from gradsync.draw.vega.charts import legend, panels
from gradsync.exhibit.form import Axis, Chart, Column, Document, Section, Table
from gradsync.study.making.document import document
from gradsync.study.making.found import collect
from gradsync.study.reproduce.reproduction import Reproduction
from made_up import made_up
from made_up_document import BAR_PANELS, CHARTS, DOCUMENT, STRATEGIES, TABLE

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
BUILD = Path(__file__).parents[3] / "build"
DRAWN = sum(len(panels(chart)) for chart in CHARTS)
ARGUMENTS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="opens pages in a browser: needs the Debian packages chromium and chromium-driver",
)


class Browser:
    """One Chromium for all tests; each opens its page anew, light and 1100 pixels wide unless it says so."""

    def __init__(self, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for argument in [*ARGUMENTS.split(), f"--user-data-dir={folder / 'profile'}"]:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options, webdriver.ChromeService(str(DRIVER)))
        self.folder = folder
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def cdp(self, command: str, **parameters: Any) -> dict[str, Any]:
        return self.driver.execute_cdp_cmd(command, parameters)

    def run(self, script: str) -> Any:
        return self.driver.execute_script(f"return {script}")

    def logged(self, kind: str) -> list[dict[str, Any]]:
        """Since the last time it was asked."""
        return self.driver.get_log(kind)

    def open(self, html: str, *, dark: bool = False, phone: bool = False) -> None:
        path = self.folder / "page.html"
        path.write_text(html)
        self.logged("browser"), self.logged("performance")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", media="", features=[scheme])
        width = 390 if phone else 1100
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=phone)
        self.driver.get(path.as_uri())
        WebDriverWait(self.driver, 60, 0.1).until(lambda _: self.run("document.documentElement.dataset.drawn"))

    def drawn(self) -> int:
        return int(self.run("document.documentElement.dataset.drawn"))

    def screenshot(self, name: str) -> None:
        BUILD.mkdir(exist_ok=True)
        taken = self.cdp("Page.captureScreenshot", captureBeyondViewport=True)
        (BUILD / name).write_bytes(base64.b64decode(taken["data"]))

    def brightness(self, element: str, colour: str) -> float:
        """From 0 to 1."""
        text = self.run(f"getComputedStyle(document.querySelector({element!r})).{colour}")
        red, green, blue = (int(number) for number in text.removeprefix("rgb(").rstrip(")").split(","))
        return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.driver.quit()


@pytest.fixture(scope="module")
def html() -> str:
    return page(DOCUMENT)


def test_every_chart_is_drawn_and_nothing_goes_wrong(browser: Browser, html: str):
    browser.open(html)
    assert browser.drawn() == DRAWN
    marks = browser.run(
        "[...document.querySelectorAll('.chart')].map(c => c.querySelectorAll('.role-mark > *').length)"
    )
    assert len(marks) == DRAWN
    assert all(marks)
    assert browser.logged("browser") == []
    browser.screenshot("report-light.png")


def test_the_page_asks_nobody_for_anything(browser: Browser, html: str):
    browser.open(html)
    messages = [json.loads(entry["message"])["message"] for entry in browser.logged("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert any(url.startswith("file:") for url in asked)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in asked if url.startswith("file:")]) == 1
    assert len(html.encode()) < 2_000_000


def test_it_is_dark_where_the_reader_wants_it(browser: Browser, html: str):
    browser.open(html)
    assert browser.brightness("html", "backgroundColor") > 0.95
    assert browser.brightness(".chart svg .role-axis-label text", "fill") < 0.25
    browser.open(html, dark=True)
    assert browser.brightness("html", "backgroundColor") < 0.15
    for element, colour in (("p", "color"), ("caption", "color"), (".chart svg .role-axis-label text", "fill")):
        assert browser.brightness(element, colour) > 0.7, element
    browser.screenshot("report-dark.png")


def test_paper_is_light_also_for_readers_in_the_dark(browser: Browser, html: str):
    browser.open(html, dark=True)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.cdp("Emulation.setEmulatedMedia", media="print", features=dark)
    assert browser.brightness("html", "backgroundColor") > 0.95
    assert browser.brightness(".chart svg .role-axis-label text", "fill") < 0.25
    assert browser.run("getComputedStyle(document.querySelector('.save')).display") == "none"


def test_on_a_phone_only_tables_scroll_sideways(browser: Browser, html: str):
    browser.open(html, phone=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.run("document.querySelector('pre').scrollWidth > document.querySelector('pre').clientWidth")
    widest = browser.run("Math.max(...[...document.querySelectorAll('.chart svg')].map(s => s.clientWidth))")
    assert 300 < widest <= 390
    browser.screenshot("report-phone.png")


def test_a_table_that_goes_on_beyond_the_edge_of_a_phone_shows_it(browser: Browser):
    columns = [Column("strategy"), *(Column(f"figure {n}", "ms") for n in range(8)), Column("remark")]
    wide = Table("Wide", columns, [[name, *range(1000, 1008), "Rank 1 is late " * 4] for name in STRATEGIES])
    narrow = Table("Narrow", columns[:2], [["ring", 1]])
    browser.open(page(Document("Tables", [], [Section("", [wide, narrow])])), phone=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    marked = "[...document.querySelectorAll('.frame')].map(f => f.classList.contains('goes-on'))"
    hinted = "[...document.querySelectorAll('.hint')].map(h => h.checkVisibility())"
    assert browser.run(marked) == [True, False]
    assert browser.run(hinted) == [True, False]
    assert browser.run("document.querySelector('.wide').tabIndex") == 0
    assert "gradient" in browser.run("getComputedStyle(document.querySelector('.frame'), '::after').backgroundImage")
    browser.run("document.querySelector('.wide').scrollTo(10000, 0)")
    WebDriverWait(browser.driver, 10, 0.1).until(lambda _: browser.run(marked) == [False, False])
    left = browser.run("document.querySelector('tbody th').getBoundingClientRect().left")
    assert 0 <= left <= 20, "the names stay where they are"


def test_names_from_the_user_are_text_wherever_they_are_shown(browser: Browser):
    name = "<script>window.wrong = 1</script><img src=x onerror='window.wrong = 2'> & co"
    rows = [{"run": f"{name} {n}", "ms": n} for n in (1, 2)]
    bars = Chart(name, "bars", rows, Axis("run", name), Axis("ms", "time", "ms"), notes=[name])
    curve = [{"x": n, "y": n, "run": name, "panel": f"{name} {n % 2}"} for n in range(4)]
    lines = Chart(f"{name} 2", "lines", curve, Axis("x", "x"), Axis("y", "y"), "run", "panel")
    table = Table(name, [Column(name, name)], [[name]], [name])
    whole = Document(name, [name], [Section(name, [table, bars, lines], [name])], name, table, [name])
    browser.open(page(whole))
    assert browser.drawn() == 3
    assert browser.run("window.wrong") is None
    assert browser.run("document.querySelectorAll('img').length") == 0
    for element in ("h1", "h2", "caption", "tbody th", "pre", ".notes", ".summary li", ".legend li"):
        assert browser.run(f"document.querySelector({element!r}).textContent") in (name, "Left out"), element
    assert browser.logged("browser") == []


def test_text_is_shown_as_it_is_and_can_be_read_aloud(browser: Browser, html: str):
    browser.open(html)
    assert browser.run("document.querySelector('h1').textContent") == DOCUMENT.title
    assert browser.run("document.title") == DOCUMENT.title
    captions = browser.run("[...document.querySelectorAll('caption')].map(c => c.textContent)")
    assert captions == [TABLE.title, "Environment"]
    assert browser.run("[...document.querySelectorAll('th')].every(th => th.scope)")
    assert browser.run("[...document.querySelectorAll('section h2')].map(h => h.textContent)")[2] == "Time"
    ids = browser.run("[...document.querySelectorAll('section')].map(s => s.id)")
    assert ids == ["time", "scaling", "time-2", "trade-offs", "nothing-yet"]
    assert browser.run("[...document.querySelectorAll('nav a')].map(a => a.hash)") == [f"#{name}" for name in ids]
    assert "runs/third" in browser.run("document.querySelector('.left-out').textContent")
    labels = browser.run("[...document.querySelectorAll('.chart')].map(c => [c.role, c.ariaLabel])")
    drawn = [panel for x in DOCUMENT.exhibits if isinstance(x, Chart) for panel in panels(x)]
    assert labels == [["graphics-document", panel["description"]] for panel in drawn]
    shown = browser.run("[...document.querySelectorAll('.legend li')].map(li => li.textContent)")
    assert shown == [e.name for x in DOCUMENT.exhibits if isinstance(x, Chart) for e in legend(x)]


def test_numbers_are_to_the_right_and_text_to_the_left(browser: Browser, html: str):
    browser.open(html)
    sides = browser.run(
        "[...document.querySelectorAll('tbody tr:first-child > *')].map(c => getComputedStyle(c).textAlign)"
    )
    assert sides[:4] == ["left", "right", "right", "right"]


def test_a_picture_can_be_saved_with_all_panels_title_and_legend(browser: Browser, html: str):
    browser.open(html)
    for form in ("SVG", "PNG"):
        script = f"""[...document.querySelectorAll('figure')].find(f => f.textContent.includes({BAR_PANELS.title!r}))
            .querySelectorAll('.save button')[{int(form == "PNG")}].click()"""
        browser.run(script)
        saved = browser.folder / f"when-each-worker-finished.{form.lower()}"
        WebDriverWait(browser.driver, 20, 0.1).until(lambda _, saved=saved: saved.exists() and saved.stat().st_size)
    text = (browser.folder / "when-each-worker-finished.svg").read_text()
    assert "ps-async" in text
    assert BAR_PANELS.title in text
    assert text.count("role-axis-title") == 4
    assert "currentColor" not in text
    assert browser.logged("browser") == []


def test_a_chart_that_cannot_be_drawn_says_so_in_its_place(browser: Browser, html: str):
    browser.open(html.replace('"mark":{"type":"bar"}', '"mark":{"type":"nonsense"}', 1))
    assert browser.drawn() == DRAWN - 1
    assert "could not be drawn" in browser.run("document.querySelector('.chart.failed').textContent")


def test_a_published_report_beside_our_runs_is_drawn_also_on_a_phone(browser: Browser, tmp_path: Path):
    what = Reproduction(report="mpi-mnist", real_data=("mnist",), steps=4)
    runs = [made_up(tmp_path, config, compute=0.1 / (config.workers or 1), wire=0.01) for config in what.plan()]
    made = document(collect([tmp_path]))
    whole = replace(made, sections=[*what.sections(runs), *made.sections], summary=what.summary(runs))
    browser.open(page(whole), phone=True)
    assert browser.drawn() == sum(len(panels(item)) for item in whole.exhibits if isinstance(item, Chart)) > 15
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert browser.logged("browser") == []
    browser.screenshot("report-published-phone.png")


def test_a_page_of_sixty_charts_is_drawn(browser: Browser):
    many = replace(DOCUMENT, sections=[Section(f"{n}", CHARTS) for n in range(8)])
    text = page(many)
    browser.open(text)
    assert browser.drawn() == 8 * DRAWN
    assert len(text.encode()) < 2_000_000


def test_a_page_without_charts_needs_no_library():
    text = page(Document("Words", ["Only."], [Section("One", [TABLE])]))
    assert len(text) < 40_000
    assert "Only." in text
