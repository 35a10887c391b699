"""The page of the service in headless Chromium. PREFIX_SCREENSHOTS names a folder for pictures of it."""

import json
import os
import shutil
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from service import Service

DOCUMENTS = ["Paris is the capital of France.", "Bread is baked from flour.", "A tree has leaves."]


def browser(dark=False, width=1280):
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            raise unittest.SkipTest(f"{program} is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},1100",
                     "--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                           {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
    return driver


def contrast(one, other):
    """By WCAG, of two colours that a browser writes as rgb(r, g, b)."""
    def luminance(colour):
        parts = [int(part) / 255 for part in colour[colour.index("(") + 1:-1].split(",")[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.driver = browser()
        cls.addClassCleanup(cls.driver.quit)
        cls.service = Service("--option", "cache_bytes=64M")
        cls.addClassCleanup(cls.service.stop)
        # Something to look at: prefixes that are shared, a tenant, and answers that are none.
        for query in ("How is bread made?", "What is the capital of France?"):
            for _ in range(3):
                cls.service.post("/v1/rerank", {"query": query, "documents": DOCUMENTS})
        cls.service.post("/v1/embeddings", {"input": DOCUMENTS}, Authorization="Bearer secret-key")

    def setUp(self):
        self.driver.get(self.service.url + "/")
        self.until(lambda: self.find("status").text == "ok")

    def find(self, name):
        return self.driver.find_element(By.ID, name)

    def until(self, condition):
        return WebDriverWait(self.driver, 120).until(lambda _: condition())

    def bars(self):
        return self.driver.find_elements(By.CSS_SELECTOR, "#tree [role=treeitem]")

    def picture(self, name, driver=None):
        folder = os.environ.get("PREFIX_SCREENSHOTS")
        if folder:
            height = (driver or self.driver).execute_script("return document.documentElement.scrollHeight")
            (driver or self.driver).set_window_size((driver or self.driver).get_window_size()["width"], height + 150)
            (driver or self.driver).save_screenshot(f"{folder}/{name}.png")

    def send(self):
        button = self.find("send")
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()

    def test_it_shows_the_tree_and_the_numbers(self):
        self.assertEqual(self.find("model").text, "small")
        tiles = {box.find_element(By.TAG_NAME, "dt").text: box.find_element(By.TAG_NAME, "dd").text
                 for box in self.driver.find_elements(By.CSS_SELECTOR, "#tiles > div")}
        self.assertEqual(list(tiles), ["Found in the cache", "Answers", "Being answered", "Tokens computed", "Tokens written",
                                       "Keys and values"])
        state = json.loads(self.service.get("/page/state")[1])
        self.assertTrue(tiles["Found in the cache"].startswith(f"{100 * state['found'] / state['given']:.1f}%"), tiles)
        labels = [bar.get_attribute("aria-label") for bar in self.bars()]
        self.assertEqual(len(labels), len(state["tree"]["nodes"]))
        self.assertTrue(any(label.startswith("without a key") for label in labels))
        self.assertTrue(any(label.startswith("tenant 1") for label in labels))
        rows = [row.text for row in self.driver.find_elements(By.CSS_SELECTOR, "#answers tr")]
        self.assertTrue(any(row.startswith("/v1/rerank 200") for row in rows), rows)
        self.assertNotIn("secret", self.driver.page_source)

    def test_it_follows_what_happens(self):
        before = len(self.bars())
        self.service.post("/v1/embeddings", {"input": ["An entirely different text of some length."]})
        self.until(lambda: len(self.bars()) > before)
        self.find("pause").click()
        self.assertEqual(self.find("pause").get_attribute("aria-pressed"), "true")
        held = len(self.bars())
        self.service.post("/v1/embeddings", {"input": ["While it is paused nothing changes."]})
        time.sleep(2.5)  # longer than two looks: there is nothing to wait for
        self.assertEqual(len(self.bars()), held)
        self.find("pause").click()
        self.until(lambda: len(self.bars()) > held)

    def test_documents_are_ranked(self):
        self.send()
        self.until(lambda: self.find("took").text.startswith("3 documents"))
        items = [item.text for item in self.driver.find_elements(By.CSS_SELECTOR, "#answer li")]
        want = self.service.post("/v1/rerank", {"query": self.find("question").get_attribute("value"), "documents":
                                                self.find("documents").get_attribute("value").split("\n")})
        shown = [f"{result['relevance_score']:.3g}" for result in want["results"]]
        self.assertEqual([float(item.split("\n")[1]) for item in items], [float(score) for score in shown])
        self.picture("ranked")

    def test_an_answer_comes_in_pieces(self):
        self.driver.find_element(By.CSS_SELECTOR, "[value=chat]").click()
        self.assertFalse(self.find("documents").is_displayed())
        question = self.find("question")
        question.clear()
        question.send_keys("What is the capital of France?", Keys.ENTER)
        self.until(lambda: "tokens of the prompt were in the cache" in self.find("took").text)
        self.assertIn("Paris", self.find("answer").text)
        # The second time is stopped in the middle, which gives it up.
        question.clear()
        question.send_keys("Tell me a long story about a tree.", Keys.ENTER)
        self.until(lambda: self.find("answer").text != "")
        self.driver.execute_script("document.getElementById('stop').click()")
        self.until(lambda: self.find("took").text == "stopped")
        self.until(lambda: json.loads(self.service.get("/page/state")[1])["in_flight"] == 0)

    def test_what_is_refused_is_said(self):
        field = self.find("documents")
        field.clear()
        self.send()
        self.until(lambda: "documents: is empty" in self.find("answer").text)

    def test_the_keyboard_walks_through_the_tree(self):
        first = self.driver.execute_script("const bar = document.querySelector('#tree [tabindex=\"0\"]'); bar.focus(); "
                                           "return bar.dataset.node")
        active = lambda: self.driver.switch_to.active_element
        levels = [active().get_attribute("aria-level")]
        active().send_keys(Keys.ARROW_RIGHT)
        levels.append(active().get_attribute("aria-level"))
        self.assertEqual(levels, ["1", "2"])
        self.assertIn("tokens from position", self.find("tree-detail").text)
        here = active().get_attribute("data-node")
        self.service.post("/v1/embeddings", {"input": ["Drawn anew, the keyboard stays where it was."]})
        time.sleep(2.5)  # two looks
        self.assertEqual(active().get_attribute("data-node"), here)
        active().send_keys(Keys.ARROW_LEFT)
        self.assertEqual(active().get_attribute("data-node"), first)
        active().send_keys(Keys.ARROW_DOWN)
        self.assertNotEqual(active().get_attribute("data-node"), first)
        self.assertEqual(len(self.driver.find_elements(By.CSS_SELECTOR, "#tree [tabindex='0']")), 1)

    def test_nothing_comes_from_elsewhere(self):
        self.driver.get(self.service.url + "/")
        self.until(lambda: self.find("status").text == "ok")
        asked = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.add(message["params"]["request"]["url"].split("?")[0])
        foreign = {url for url in asked if not url.startswith((self.service.url, "data:"))}
        self.assertEqual(foreign, set())
        self.assertIn(f"{self.service.url}/page/tree.js", asked)
        # What the policy refuses would be told here, and what JavaScript stumbles over.
        told = [entry["message"] for entry in self.driver.get_log("browser") if " 40" not in entry["message"]]
        self.assertEqual(told, [])
        for path in ("/", "/page/page.js", "/page/page.css", "/page/state"):
            headers, _ = self.service.get(path)
            policy = headers["content-security-policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(headers["x-content-type-options"], "nosniff")
        self.driver.execute_script("const s = document.createElement('script'); s.textContent = 'window.taken = 1'; "
                                   "document.body.append(s)")
        self.assertIsNone(self.driver.execute_script("return window.taken ?? null"))
        self.driver.get_log("browser")

    def test_names_are_text(self):
        """A question is shown as it is, not as a part of the page."""
        question = self.find("documents")
        question.clear()
        question.send_keys("<img src=x onerror=alert(1)><b>bold</b>")
        self.send()
        self.until(lambda: "<b>bold</b>" in self.find("answer").text)

    def test_light_dark_and_narrow(self):
        colours = ("const style = getComputedStyle(document.querySelector(arguments[0])); let ground = document.querySelector("
                   "arguments[0]); while (getComputedStyle(ground).backgroundColor === 'rgba(0, 0, 0, 0)') ground = "
                   "ground.parentElement; return [style.color, getComputedStyle(ground).backgroundColor]")
        for dark in (False, True):
            for width in (1280, 420):
                driver = browser(dark, width)
                try:
                    driver.get(self.service.url + "/")
                    WebDriverWait(driver, 60).until(lambda d: d.find_element(By.ID, "status").text == "ok")
                    time.sleep(2)  # for curves in the picture
                    self.picture(f"{'dark' if dark else 'light'}-{width}", driver)
                    for selector in ("h1", "#about", "#status", ".tiles dt", ".tiles dd small", ".hint", ".legend", "#theme",
                                     "#send", "#question", "th", "#answers td", ".code", ".facts dt", "#tree-detail"):
                        text, ground = driver.execute_script(colours, selector)
                        self.assertGreaterEqual(contrast(text, ground), 4.5, (selector, text, ground, dark))
                    bars = driver.execute_script(
                        "return [...document.querySelectorAll('#tree g text')].map(t => [getComputedStyle(t).fill, "
                        "getComputedStyle(t.parentElement.firstChild).fill])")
                    self.assertGreater(len(bars), 4)
                    for text, ground in bars:
                        self.assertGreaterEqual(contrast(text, ground), 4.5, (text, ground, dark))
                    wide = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
                    self.assertLessEqual(wide, 0)
                    button = driver.find_element(By.ID, "theme")
                    self.assertEqual(button.text, "Light" if dark else "Dark")
                    ground = driver.execute_script(colours, "h1")[1]
                    button.click()
                    self.assertNotEqual(driver.execute_script(colours, "h1")[1], ground)
                    unnamed = driver.execute_script(
                        "return [...document.querySelectorAll('input, textarea, button')].filter(e => !e.labels?.length && "
                        "!e.textContent.trim()).map(e => e.id)")
                    self.assertEqual(unnamed, [])
                finally:
                    driver.quit()

    def test_with_keys_the_numbers_need_one(self):
        keys = Path(os.environ.get("TMPDIR", "/tmp")) / f"prefix-keys-{os.getpid()}"
        keys.write_text("open-sesame\n")
        self.addCleanup(keys.unlink)
        service = Service("--api-keys", str(keys))
        self.addCleanup(service.stop)
        self.driver.get(service.url + "/")
        self.until(lambda: self.find("status").text == "locked")
        self.find("key").send_keys("wrong", Keys.ENTER)
        time.sleep(0.5)
        self.assertEqual(self.find("status").text, "locked")
        self.find("key").clear()
        self.find("key").send_keys("open-sesame", Keys.ENTER)
        self.until(lambda: self.find("status").text == "ok")
        self.assertFalse(self.find("key-form").is_displayed())
        self.send()
        self.until(lambda: self.find("took").text.startswith("3 documents"))


if __name__ == "__main__":
    unittest.main()
