"""Scripts of another site in headless Chromium: they may ask where --cors lets them, and nowhere else."""

import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer

from test_page import browser
from service import Service

ASK = """
const [url, field, done] = arguments;
fetch(url + "/v1/embeddings", {
  method: "POST", body: JSON.stringify({ [field]: "a" }),
  headers: { "content-type": "application/json", authorization: "Bearer one", "x-stainless-os": "Linux" },
}).then((answer) => done([answer.status, answer.headers.get("x-request-id").slice(0, 4)]), (why) => done(why.name));
"""


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()

    def log_message(self, *_):
        pass


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        site = HTTPServer(("127.0.0.1", 0), EmptyPage)
        cls.addClassCleanup(site.server_close)
        threading.Thread(target=site.serve_forever, daemon=True).start()
        cls.addClassCleanup(site.shutdown)
        cls.site = f"http://127.0.0.1:{site.server_port}"
        cls.driver = browser()
        cls.addClassCleanup(cls.driver.quit)
        cls.driver.set_script_timeout(120)
        cls.driver.get(cls.site + "/")

    def ask(self, field, *options):
        service = Service("--option", "cache_bytes=64M", *options)
        self.addCleanup(service.stop)
        return self.driver.execute_async_script(ASK, service.url, field)

    def test_a_site_that_is_let_reads_answers_and_refusals(self):
        for origin in (self.site, "*"):
            self.assertEqual(self.ask("input", "--cors", origin), [200, "req-"])
        self.assertEqual(self.ask("nothing", "--cors", self.site), [400, "req-"])

    def test_others_read_nothing(self):
        self.assertEqual(self.ask("input"), "TypeError")
        self.assertEqual(self.ask("input", "--cors", "https://site.example"), "TypeError")


if __name__ == "__main__":
    unittest.main()
