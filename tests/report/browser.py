"""A headless Chromium that opens a page from disk, and what it has done meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """Debian's browser with its driver: the packages `chromium` and `chromium-driver`."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", f"window-size={width},{height}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        driver.set_script_timeout(60)
        yield Browser(driver)
    finally:
        driver.quit()


class Browser:
    """The driver, with the few things that the tests do."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, path: Path) -> None:
        self.driver.get(path.as_uri())

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait_js(self, script: str, *arguments: Any) -> Any:
        """The value that the script passes to the function `done`."""
        given = f"const done = arguments[arguments.length - 1]; {script}"
        return self.driver.execute_async_script(given, *arguments)

    def command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def emulate(self, **features: str) -> None:
        """Sets media features, for example prefers_color_scheme="dark"."""
        pairs = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.command("Emulation.setEmulatedMedia", features=pairs)

    def messages(self) -> list[str]:
        """What is in the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
