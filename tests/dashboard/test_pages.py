"""Stories in a real browser, on a real `makeway up`: what a person finds, in how many clicks."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from makeway.api.kinds import WORKLOADS
from makeway.api.times import parse_time
from tests.dashboard import lab
from tests.harness.browser import Browser, Page, browsing
from tests.harness.forwarding import forwarded
from tests.harness.process import Up, end_pods, wait_until
from tests.prerequisites import SLOWNESS

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SYNCED = "document.documentElement.dataset.synced === 'yes'"
SEES_WITHIN_S = 1.0 * 3 * SLOWNESS  # others work beside us
FIRST_PAINT_MAX_MS = 1000 * 3 * SLOWNESS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def up(folder: Path) -> Iterator[Up]:
    """speech runs more than it owns; then vision wants its own back; then there are more.

    The journal has the day before, too.
    """
    lab.live_through_a_day(folder / "data", time.time())
    up = Up(folder / "data", *lab.options(folder / "files", _free_port()))
    up.start()
    try:
        lab.set_up(up, folder / "files")
        lab.submit(
            up, "train-asr", "speech", 6, "for i in 1 2 3; do echo epoch $i; done; sleep 600"
        )
        lab.submit(up, "eval-asr", "speech", 1)
        lab.submit(up, "tokenize", "speech", 1, "echo 120 shards")
        wait_until(lambda: "succeeded" in up.makeway("status", "--all"))
        lab.submit(up, "train-seg", "vision", 3)
        wait_until(lambda: _status(up, "train-seg") == "running")
        lab.submit(up, "distill", "speech", 5)
        lab.submit(up, "too-big", "vision", 16, "true", "--force")
        lab.submit(up, "later", "speech", 1, "sleep 600", "--hold")
        wait_until(lambda: _status(up, "train-asr") == "pending")
        yield up
    finally:
        up.stop()
        end_pods(up.folder)


def _free_port() -> int:
    """A page comes back to the same port after a restart."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _status(up: Up, name: str) -> str:
    rows = json.loads(up.makeway("status", "--all", "-o", "json"))["items"]
    return str(next((row["status"] for row in rows if row["name"] == name), ""))


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Browser]:
    with browsing(folder / "browser") as browser:
        yield browser


@pytest.fixture(scope="module")
def window(browser: Browser, up: Up) -> Page:
    """Of somebody who has signed in."""
    page = browser.page()
    page.open(up.makeway("dashboard", "--print").strip())
    page.wait(SYNCED)
    return page


@pytest.fixture
def page(window: Page) -> Iterator[Page]:
    """The first page, as one finds it; in the same window, since each new one is a process."""
    window.resize(*LOOKS["light"])
    window.prefer("light")
    window.run("window.isLeft = true")
    window.open(window.run("location.origin"))
    window.wait(f"!window.isLeft && {SYNCED}")
    yield window
    assert window.complaints == []


def go(page: Page, path: str) -> None:
    page.run(f"history.pushState(null, '', '{path}'); dispatchEvent(new PopStateEvent('popstate'))")


# --- signing in ---


def test_the_code_leaves_the_address_and_works_once(browser: Browser, up: Up) -> None:
    address = up.makeway("dashboard", "--print").strip()
    first, second = browser.page(), browser.page()
    first.open(address)
    first.wait(SYNCED)
    assert "#" not in first.run("location.href")
    assert first.run("document.cookie") == ""

    second.open(address)
    second.has("this code was used or is too old")
    assert "train-asr" not in second.text()
    second.close()
    first.close()


def test_a_page_without_a_session_shows_nothing_and_takes_a_pasted_address(
    browser: Browser, up: Up
) -> None:
    base, _, _ = up.makeway("dashboard", "--print").strip().partition("#")
    page = browser.page()
    page.open(base)
    page.has("Run makeway dashboard on this machine")
    assert "train-asr" not in page.text()

    page.press("document.getElementById('code')")
    page.type(up.makeway("dashboard", "--print").strip())
    page.key("Enter")
    page.wait(SYNCED)
    page.close()


def test_a_link_in_a_new_tab_needs_no_new_code(browser: Browser, page: Page) -> None:
    base = page.run("location.origin")
    other = browser.tab(page.context)
    other.open(f"{base}/queues/vision")
    other.wait(SYNCED)
    other.has("Who holds it")
    other.close()


def test_who_signs_out_is_signed_out_in_every_tab(browser: Browser, up: Up) -> None:
    first = browser.page()
    first.open(up.makeway("dashboard", "--print").strip())
    first.wait(SYNCED)
    other = browser.tab(first.context)
    other.open(f"{first.run('location.origin')}/jobs")
    other.wait(SYNCED)
    session = other.run("sessionStorage.getItem('makeway-session')")
    first.click("Sign out", within="header")

    for tab in (first, other):
        tab.has("Run makeway dashboard on this machine")
        assert "train-asr" not in tab.text()
        assert tab.run("sessionStorage.length") == 0
    shown = json.dumps({"headers": {"Makeway-Session": session}})
    assert first.run(f"fetch('/api/stream', {shown}).then((answer) => answer.status)") == 401
    other.close()
    first.close()


def test_the_api_does_not_know_the_session(page: Page, up: Up) -> None:
    session = page.run("sessionStorage.getItem('makeway-session')")
    request = urllib.request.Request(
        f"{up.address}/api/v1/namespaces", headers={"Authorization": f"Bearer {session}"}
    )
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, context=up.tls())


# --- finding things ---


def test_why_a_job_waits_is_one_click_away(page: Page) -> None:
    page.click("5 distill", within="main")  # in the list of those who wait

    page.has("Why it waits")
    page.has("Who holds what is missing")
    page.has("What would help")


def test_who_took_its_place_is_two_clicks_away(page: Page) -> None:
    page.click("1 train-asr", within="main")
    page.has("Its place was taken by train-seg")
    page.click("train-seg", within=".notice")

    page.wait("document.querySelector('h1').innerText.endsWith('train-seg')")
    page.has("vision")


def test_who_took_its_place_is_told_in_its_life_and_leads_there(page: Page) -> None:
    go(page, "/jobs/Job/default/train-asr")
    page.has("its place was taken by train-seg")
    page.click("train-seg", within=".stays")

    page.wait("location.pathname === '/jobs/Job/default/train-seg'")


def test_when_a_job_will_start_is_one_click_away(page: Page) -> None:
    page.click("5 distill", within="main")
    page.has("Expected to start\n~")


def test_how_long_a_queue_lets_wait_is_two_clicks_away(page: Page) -> None:
    page.click("Queues", within="header")
    page.click("speech", within=".queues")
    page.has("How long those had waited that got their place")
    page.has("Jobs that wait")
    charts = "document.querySelectorAll('section[aria-labelledby=time] svg path').length"
    page.wait(f"{charts} >= 2")  # use and waiting; the journal is written a moment later


def test_a_deleted_job_has_a_page_that_tells_its_life(page: Page, up: Up) -> None:
    lab.submit(up, "fleeting", "speech", 1, "true")
    wait_until(lambda: _status(up, "fleeting") == "succeeded")
    up.makeway("delete", "job", "fleeting")
    go(page, "/jobs/Job/default/fleeting")

    page.has("This is what the journal tells of it")
    page.has("had its place")
    page.wait("document.querySelector('.events b').innerText === 'deleted'")
    page.complaints.clear()  # the browser may note that the Job went while its page was asking


def test_a_forwarded_port_may_have_another_number(browser: Browser, up: Up) -> None:
    """As by `ssh -L 9000:127.0.0.1:7476 box`: what the box prints, with the port in front of us."""
    address = up.makeway("dashboard", "--print").strip()
    port = int(address.partition("/#")[0].rpartition(":")[2])
    with forwarded(port) as local:
        page = browser.page()
        page.open(address.replace(f":{port}/", f":{local}/"))
        page.wait(SYNCED)
        go(page, "/jobs?search=later")
        page.press("document.querySelector('.body a.whole')")
        page.press("document.getElementById('resume')")  # its origin is the local port's
        page.wait("!document.querySelector('.head .status').innerText.endsWith('held')")
        assert page.complaints == []
        page.close()
    up.makeway("hold", "later")
    wait_until(lambda: _status(up, "later") == "held")


def test_numbers_lead_to_what_they_are_made_of(page: Page) -> None:
    page.press(
        "[...document.querySelectorAll('.tile')].find((t) => t.innerText.includes('waiting'))"
    )
    page.wait("location.pathname + location.search === '/jobs?status=waiting'")
    page.wait("document.getElementById('count')?.innerText === '4 of 7'")

    go(page, "/")
    page.press("document.querySelector('.queues a[href=\"/jobs?queue=vision&status=holding\"]')")
    page.wait("document.getElementById('count')?.innerText === '1 of 7'")
    page.has("train-seg")


def test_no_figure_is_without_what_it_is_made_of(page: Page) -> None:
    for path in ("/", "/queues", "/queues?cohort=lab", "/history"):
        go(page, path)
        page.wait("document.querySelectorAll('main td.n').length > 3")
        bare = page.run(
            """[...document.querySelectorAll('main :is(.tile b, .value, td.n, .matrix td + td)')]
            .filter((n) => /[0-9]/.test(n.innerText) && !n.closest('a') && !n.querySelector('a'))
            .map((n) => n.innerText)"""
        )
        assert bare == [], path


def test_figures_of_the_past_lead_to_their_jobs(page: Page) -> None:
    go(page, "/history")
    page.press("document.querySelector('a[href*=\"user=default&queue=speech&by=preempted\"]')")
    page.has("Jobs of default in speech")
    page.wait("document.querySelectorAll('tbody tr').length > 20")
    page.wait("document.querySelector('th[aria-sort]').innerText.startsWith('Preempted')")
    most = "document.querySelector('tbody th a')"
    name = page.run(f"{most}.innerText")
    page.press(most)
    page.has("This is what the journal tells of it")  # it is long deleted
    page.wait(f"document.querySelector('h1').innerText === '{name}'")

    go(page, "/history")
    page.press("document.querySelector('.matrix td a')")
    page.has("Jobs of speech that made way for vision")
    page.wait("document.querySelectorAll('tbody tr').length > 5")
    page.press("document.querySelector('tbody td a')")
    page.wait("location.pathname.startsWith('/jobs/Job/default/')")


def test_jobs_of_the_past_that_are_hidden_stay_apart(page: Page) -> None:
    hidden = {"workload": "", "name": "of bob", "queue": "speech", "used": {}}
    taken = {"at": 1, "victim": hidden, "preemptor": hidden}
    told = {"count": 502, "resources": [], "jobs": [hidden, hidden], "preemptions": [taken, taken]}
    page.run(
        f"""((real) => {{ window.fetch = (path, options) => path.startsWith("/api/history/")
            ? Promise.resolve(new Response(JSON.stringify({json.dumps(told)})))
            : real(path, options); }})(fetch)"""
    )
    for what, words in (("jobs", "and 500 more with less"), ("preemptions", "and 500 earlier")):
        go(page, f"/history/{what}?since=1&until=2")
        page.has(words)
        again = "dispatchEvent(new PopStateEvent('popstate'))"  # whatever changes, it is drawn anew
        assert page.run(f"{again}, document.querySelectorAll('tbody tr').length") == 2


def test_a_moment_of_a_chart_leads_to_who_held_something_then(page: Page) -> None:
    go(page, "/queues/speech")
    page.press("document.querySelector('section[aria-labelledby=time] svg')")
    page.has("Jobs in speech")
    page.wait("document.querySelectorAll('tbody tr').length > 0")


def test_an_address_shows_the_same_to_whoever_opens_it(page: Page, browser: Browser) -> None:
    page.click("Jobs", within="header")
    page.press("document.getElementById('search')")
    page.type("asr")
    page.wait("document.getElementById('count').innerText === '2 of 7'")
    address = page.run("location.href")
    assert address.endswith("/jobs?search=asr")

    other = browser.tab(page.context)
    other.open(address)
    other.wait("document.getElementById('count')?.innerText === '2 of 7'")
    other.close()


def test_jobs_are_sorted_by_a_column(page: Page) -> None:
    go(page, "/jobs")
    page.click("Asks for", within=".heads")
    page.wait("document.querySelector('.body .c-name').innerText === '6 too-big'")
    page.click("Asks for ↓", within=".heads")
    page.wait("document.querySelector('.body .c-name').innerText !== '6 too-big'")


def test_who_used_how_much_last_week_is_two_clicks_away(page: Page) -> None:
    page.click("History", within="header")
    page.click("last week", within="main")

    page.wait("location.search === '?span=604800'")
    page.wait("!!document.querySelector('#people')")
    rows = page.run("[...document.querySelectorAll('tbody tr')].map((r) => r.innerText)")
    accounts = sorted(row.split()[:2] for row in rows if row.startswith("default"))
    assert accounts == [["default", "speech"], ["default", "vision"]]
    page.has("Who preempted whom")
    page.wait("!!document.querySelector('svg path')")
    csv = page.run("document.querySelector('a[download]').href")
    assert "user%22%2C%22queue%22%2C%22jobs" in csv


def test_what_would_become_of_a_job_is_asked_on_a_page(page: Page, up: Up) -> None:
    before = up.makeway("status", "--all")
    go(page, "/what-if?queue=default/vision&gpu=1")
    page.wait("!!document.querySelector('#answer')")
    page.wait("document.querySelector('.why b').innerText")
    one_gpu = page.run("document.querySelector('.why').innerText")

    go(page, "/what-if?queue=default/vision&gpu=64")
    said = "document.querySelector('.why')?.innerText"
    page.wait(f"{said} && {said} !== {json.dumps(one_gpu)}")
    page.press("document.getElementById('yaml')")
    page.type("kind: [")
    page.press("document.getElementById('ask-queues')")
    page.wait("!!document.querySelector('.problem')")
    assert up.makeway("status", "--all").count("\n") == before.count("\n")  # nothing was created
    page.complaints.clear()  # the browser notes the refusal


def test_output_is_read_and_followed(page: Page) -> None:
    go(page, "/jobs?status=ended")
    page.click("3 tokenize", within="main")

    page.has("120 shards")
    page.has("Its life")


def test_the_keyboard_reaches_everything(page: Page) -> None:
    go(page, "/jobs?sort=name")
    page.run("document.activeElement.blur()")
    page.key("Tab")
    assert page.run("document.activeElement.innerText") == "To the content"
    page.key("/")
    assert page.run("document.activeElement.id") == "search"
    for _ in range(40):
        page.key("Tab")
        if page.run("document.activeElement.classList.contains('whole')"):
            break
    assert page.run("document.activeElement.innerText") == "5 distill"
    page.key("Enter")
    page.wait("document.querySelector('h1').innerText === '5 distill'")
    assert page.run("document.title") == "distill · Makeway"


# --- what changes while one looks ---


def test_a_job_is_held_resumed_and_cancelled_from_its_page(page: Page, up: Up) -> None:
    lab.submit(up, "scratch", "speech", 7)
    go(page, "/jobs?search=scratch")
    page.press("document.querySelector('.body a.whole')")
    page.press("document.getElementById('hold')")
    page.wait("document.querySelector('.head .status').innerText.endsWith('held')")
    assert _status(up, "scratch") == "held"
    page.press("document.getElementById('resume')")
    page.wait("document.querySelector('.head .status').innerText.endsWith('pending')")
    page.press("document.getElementById('cancel')")
    page.has("End it for good?")
    page.press("document.getElementById('yes')")
    page.wait("document.querySelector('.head .status').innerText.endsWith('cancelled')")
    assert _status(up, "scratch") == "cancelled"  # it stays, as after `makeway cancel`


def test_a_preemption_appears_at_once(page: Page, up: Up) -> None:
    """From the write that stops the victim to the page of a reader."""
    lab.submit(up, "victim", "vision", 1)
    wait_until(lambda: _status(up, "victim") == "running")
    page.run(
        """(() => { window.seenAt = 0; const look = () => {
        if (/evicting|pending/.test(document.querySelector('.body .c-status')?.innerText)) {
          window.seenAt = Date.now() / 1000; } else setTimeout(look, 10); };
        history.pushState(null, '', '/jobs?search=victim');
        dispatchEvent(new PopStateEvent('popstate')); setTimeout(look, 400); })()"""
    )
    page.wait("document.querySelector('.body .c-status')?.innerText.endsWith('running')")

    up.makeway(
        *("submit", "-q", "vision", "--name", "boss", "--priority", "urgent", "--gpu", "4"),
        *("--", "sleep", "600"),
    )
    evicted_at = wait_until(lambda: _evicted_at(up, "victim"))
    seen_at = page.wait("window.seenAt")

    assert seen_at - evicted_at < SEES_WITHIN_S + 1.0  # moments in objects are whole seconds
    up.makeway("cancel", "-y", "boss", "victim")


def _evicted_at(up: Up, name: str) -> float:
    workloads = [found for found in up.listed(WORKLOADS) if name in found["metadata"]["name"]]
    conditions = workloads[0]["status"]["conditions"] if workloads else []
    found = [c for c in conditions if (c["type"], c["status"]) == ("Evicted", "True")]
    return parse_time(found[0]["lastTransitionTime"]) if found else 0.0


def test_the_page_recovers_when_the_server_was_restarted(page: Page, up: Up) -> None:
    up.kill()
    page.has("connection lost")
    assert "train-seg" in page.text()  # what was known stays

    up.start()
    page.wait("document.querySelector('.link').classList.contains('live')")
    lab.submit(up, "after-restart", "speech", 1, "true")
    page.has("after-restart")
    page.complaints.clear()  # the browser notes that nobody answered


# --- for everybody, in every light ---

NOW = int(time.time())
PAGES = {
    "now": "/",
    "jobs": "/jobs",
    "job": "/jobs/Job/default/train-asr",
    "queues": "/queues",
    "queue": "/queues/vision",
    "history": "/history",
    "what-if": "/what-if?queue=default%2Fvision&gpu=2&cpu=4",
    "made-of": f"/history/jobs?since={NOW - 86400}&until={NOW}&queue=speech&by=preempted",
}
ARE_THERE = {
    "job": "Expected to start\n~",
    "queues": "Jobs that wait",
    "history": "Who used how much",
    "queue": "Jobs that wait",
    "what-if": "Then",
    "made-of": "Work lost",
}
LOOKS = {"light": (1280, 900), "dark": (1280, 900), "phone": (360, 740)}


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_is_accessible_and_fits_its_screen(look: str, page: Page, folder: Path) -> None:
    script = files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.resize(*LOOKS[look])
    page.prefer("dark" if look == "dark" else "light")
    page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
    page.call("Page.reload")
    page.wait(f"{SYNCED} && !!window.axe")
    rules = "runOnly: ['color-contrast']" if look == "dark" else ""  # the rest is the same in light
    for name, path in PAGES.items():
        go(page, path)
        page.wait("!!document.querySelector('h1')")
        page.has(ARE_THERE.get(name, ""))
        found = page.run(
            f"""axe.run(document, {{resultTypes: ["violations"], {rules}}}).then((r) =>
            r.violations.map((v) =>
            `${{v.id}}: ${{v.nodes.map((n) => n.html.slice(0, 200)).join(" | ")}}`))"""
        )
        assert found == [], (name, look)
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), (name, look)
        _keep_picture(page, folder, f"{name}-{look}")


def _keep_picture(page: Page, folder: Path, name: str) -> None:
    """For the docs, if somebody wants them anew: MAKEWAY_PICTURES=1; else one of each look."""
    is_wanted = bool(os.environ.get("MAKEWAY_PICTURES"))
    if is_wanted or name.startswith("now-"):
        page.run("scrollTo(0, 0)")
        file = (PICTURES if is_wanted else folder) / f"{name}.webp"
        page.picture(file)
        assert file.stat().st_size > 2_000


def test_first_paint_comes_at_once(page: Page) -> None:
    page.call("Page.reload")
    page.wait(SYNCED)
    paint = page.wait("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")

    assert paint < FIRST_PAINT_MAX_MS
