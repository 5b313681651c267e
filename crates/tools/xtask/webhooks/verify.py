"""Receives webhooks of a real node and verifies them with the official library of Standard Webhooks.

Called by `cargo xtask ci` with the program `purser`. Says what it found and ends with 0 if every event was
verified: before, during and after a rotation of the secret; and refused with a wrong secret or an altered
body.
"""

import base64
import http.server
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

TOKEN = "only for this check"
PATIENCE_SECONDS = 60


def secret(filling):
    return "whsec_" + base64.b64encode(bytes([filling]) * 32).decode()


ONE, TWO, WRONG = secret(1), secret(2), secret(3)
received = []


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        received.append((dict(self.headers.items()), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(base, path, body, key=None):
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    if key:
        headers["idempotency-key"] = key
    request = urllib.request.Request(base + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=15) as answer:
        return json.load(answer)


def wait_for(what, look):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            found = look()
            if found:
                return found
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"waited in vain: {what}")


def is_verified(with_secret, headers, body):
    try:
        Webhook(with_secret).verify(body, headers)
        return True
    except WebhookVerificationError:
        return False


def charge(base, key):
    """Charges, and gives the event that tells of it."""
    charged = ask(base, "/v1/tenants/acme/charges", {"amount": 1}, key)
    is_it = lambda body: json.loads(body)["data"]["entry"].get("charge_id") == charged["charge_id"]
    return wait_for(key, lambda: next(((h, b) for h, b in received if is_it(b)), None))


def check(base, hook):
    ready = lambda: urllib.request.urlopen(base + "/readyz", timeout=5).status == 200
    wait_for("the node is ready", ready)
    ask(base, "/admin/v1/webhooks", {"webhook": "official", "url": hook, "secret": ONE})
    ask(base, "/admin/v1/tenants", {"tenant": "acme"}, "open")
    ask(base, "/admin/v1/tenants/acme/grants", {"amount": 100}, "grant")
    stages = [("before a rotation", {ONE}), ("during a rotation", {ONE, TWO}), ("after it", {TWO})]
    for number, (stage, signing) in enumerate(stages):
        if signing == {ONE, TWO}:
            rotate = {"secret": TWO, "overlap_seconds": 3600}
            ask(base, "/admin/v1/webhooks/official/rotate", rotate)
        if signing == {TWO}:
            # Another rotation ends the overlap at once: first away from the second secret, then back.
            for last in (WRONG, TWO):
                rotate = {"secret": last, "overlap_seconds": 0}
                ask(base, "/admin/v1/webhooks/official/rotate", rotate)
        # A worker takes note of a rotation within a moment: whatever was under way is signed as before.
        events = lambda: charge(base, f"charge-{number}-{time.monotonic_ns()}")
        expected = {it: it in signing for it in (ONE, TWO, WRONG)}
        verified = lambda event: {it: is_verified(it, *event) for it in expected}
        headers, body = wait_for(
            f"an event that is signed as {stage}",
            lambda: next((event for event in [events()] if verified(event) == expected), None),
        )
        if any(is_verified(it, headers, body + b" ") for it in expected):
            sys.exit(f"{stage}: an altered body is verified")
        print(f"{stage}: verified with {len(signing)} of 3 secrets, refused with the others")


def main(purser):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        api, peer = free_port(), free_port()
        token_file, config = os.path.join(folder, "token"), os.path.join(folder, "purser.toml")
        with open(token_file, "w") as file:
            file.write(TOKEN)
        with open(config, "w") as file:
            file.write(
                f'node = 1\ncluster = "check"\nregion = "us"\nshards = 1\n'
                f'data-dir = "{folder}/data"\nlisten = "127.0.0.1:{api}"\n'
                f'peer-listen = "127.0.0.1:{peer}"\n'
                f'[storage]\nprofile = "small"\n'
                f"[webhooks]\nallow-private-targets = true\n"
                f'[[token]]\nname = "check"\ntoken-file = "{token_file}"\n'
                f'scopes = ["admin", "spend", "read"]\n'
            )
        node = subprocess.Popen([purser, "serve", "--config", config])
        try:
            check(f"http://127.0.0.1:{api}", f"http://127.0.0.1:{server.server_port}/hook")
        finally:
            node.terminate()
            node.wait()


main(sys.argv[1])
