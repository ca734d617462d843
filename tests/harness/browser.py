"""A real Chromium, driven as a person would: addresses, clicks, keys, and what is on the page."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import subprocess
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from tests.prerequisites import program

T = TypeVar("T")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--remote-debugging-port=0", "--disable-dev-shm-usage"),
    "--disable-back-forward-cache",  # a page that was left keeps no stream
    # No process that nobody has asked for yet: each takes longer to start than a page to be read.
    *("--disable-features=SpareRendererForSitePerProcess", "--process-per-site"),
    "--in-process-gpu",
)
START_S = WAIT_S = 60.0


class Browser:
    """The process, and the one connection over which all its pages are spoken to."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        command = [program(*BROWSERS), *FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._numbers = itertools.count(1)
        self._pages: dict[str, Page] = {}
        self._wait_for(self._connect(folder / "DevToolsActivePort"))

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    async def _connect(self, file: Path) -> None:
        deadline = time.monotonic() + START_S
        while not (file.exists() and len(file.read_text().split()) == 2):
            assert time.monotonic() < deadline, "the browser did not start"
            await asyncio.sleep(0.05)
        port, path = file.read_text().split()
        self._http = aiohttp.ClientSession()
        address = f"ws://127.0.0.1:{port}{path}"
        self._socket = await self._http.ws_connect(address, max_msg_size=64 * 1024 * 1024)

    def close(self) -> None:
        self._wait_for(self._socket.close())
        self._wait_for(self._http.close())
        self._process.terminate()
        self._process.wait(10)
        self._loop.close()

    def call(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """What the browser answers to one command; what it tells meanwhile is noted."""
        return self._wait_for(self._call(method, session, parameters))

    async def _call(self, method: str, session: str, parameters: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        await self._socket.send_str(json.dumps(message))
        async with asyncio.timeout(60):
            while True:
                heard = json.loads((await self._socket.receive()).data)
                if heard.get("id") == number:
                    assert "error" not in heard, (method, heard["error"])
                    answer: dict[str, Any] = heard["result"]
                    return answer
                page = self._pages.get(heard.get("sessionId", ""))
                if page is not None:
                    page.hear(heard["method"], heard.get("params") or {})

    def page(self, width: int = 1280, height: int = 900) -> Page:
        """A window of its own, with nothing kept from others."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        return self.tab(context, width, height)

    def tab(self, context: str, width: int = 1280, height: int = 900) -> Page:
        """Another window beside those of a context."""
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, attached["sessionId"], target["targetId"], context)
        self._pages[attached["sessionId"]] = page
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        return page


class Page:
    def __init__(self, browser: Browser, session: str, target: str, context: str) -> None:
        self._browser, self._session, self._target = browser, session, target
        self.context = context
        self.complaints: list[str] = []  # errors and warnings of the console

    def hear(self, method: str, told: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.complaints.append(
                str((details.get("exception") or {}).get("description") or details["text"])
            )
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning"):
            self.complaints.append(str([one.get("value") for one in told["args"]]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 700,
        )

    def prefer(self, scheme: str) -> None:
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str, timeout_s: float = WAIT_S) -> Any:
        """Until an expression in the page is true; its value."""
        deadline = time.monotonic() + timeout_s
        while True:
            began = time.monotonic()
            try:
                value = self.run(condition)
            except AssertionError as error:  # between two pages there is nothing to ask
                value, why = None, error
            else:
                why = AssertionError(f"{condition} did not come true")
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{condition}: {self.text()[:2000]}\n{self.complaints}"
                ) from why
            time.sleep(min(0.5, max(0.03, 4 * (time.monotonic() - began))))

    def text(self) -> str:
        """What a reader sees."""
        return str(self.run("document.body.innerText"))

    def has(self, text: str, timeout_s: float = WAIT_S) -> None:
        self.wait(f"document.body.innerText.includes({json.dumps(text)})", timeout_s)

    def click(self, text: str, *, within: str = "body") -> None:
        """On the first link or button with this text, where a person would click."""
        all_of = f"[...document.querySelectorAll({json.dumps(within + ' :is(a, button)')})]"
        named = f"""{all_of}.find((n) => [n.textContent.trim(), n.ariaLabel].includes(
            {json.dumps(text)}))"""
        self.press(named)

    def press(self, node: str) -> None:
        """On the middle of the element that an expression names, once it is there."""
        self.wait(f"!!({node})")
        x, y = self.run(
            f"""(() => {{ const n = {node}; n.scrollIntoView({{block: "center"}});
            const b = n.getBoundingClientRect();
            return [b.x + b.width / 2, b.y + b.height / 2]; }})()"""
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name: str) -> None:
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        codes = {"Tab": 9, "Enter": 13}
        code = codes.get(name, ord(name[0].upper()))
        told: dict[str, Any] = {"key": name, "windowsVirtualKeyCode": code}
        self.call(
            "Input.dispatchKeyEvent", type="keyDown", **told, **({"text": text} if text else {})
        )
        self.call("Input.dispatchKeyEvent", type="keyUp", **told)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self, path: Path, *, is_whole: bool = False) -> None:
        kind = path.suffix.removeprefix(".")  # png or webp
        asked = {"quality": 70} if kind == "webp" else {}
        shot = self.call(
            "Page.captureScreenshot", format=kind, captureBeyondViewport=is_whole, **asked
        )
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    browser = Browser(folder)
    try:
        yield browser
    finally:
        browser.close()
