#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server of files that misbehaves on purpose: server.py FOLDER [PORT].

It listens on 127.0.0.1 and prints its port. Each line of its standard input is a command in JSON, and each command is
answered with a line of JSON. The server ends when its standard input ends.

  {"do": "faults", "name": N, "list": [F...], "then": F}
      Sets the faults of the next requests for /N, one each; "then" is the fault of all later requests.
  {"do": "keys", "access": A, "secret": S, "token": T, "region": R}
      Requests must be signed with Signature Version 4.
  {"do": "tls", "kind": "good" | "self" | "other"}
      Opens another port that speaks TLS; answers with it and with the certificate of its authority.
  {"do": "log"}
      Answers with the requests since the last such command.
  {"do": "active"}
      Answers with the number of requests that are being answered now.

Faults: status:CODE, status:CODE:RETRY-AFTER, cut:BYTES, drip:MILLISECONDS, slow:MILLISECONDS, hang, silent, whole,
whole-length:N, long, short, shifted:BYTES, total:N, no-content-range, gzip, at-most:BYTES, no-etag, weak-etag,
other-etag, redirect:CODE:URL, basic:USER:PASSWORD, xml:STATUS:CODE:REGION, endless-error.
"""
import base64
import hashlib
import hmac
import http.server
import json
import os
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

FOLDER = sys.argv[1]
STATE = threading.Lock()
FAULTS = {}  # name -> [list, then]
LOG = []
ACTIVE = []  # requests that are being answered
KEYS = {}


def next_fault(name):
    """Returns the fault of the next request for a file: its name and, if it has one, its argument."""
    with STATE:
        waiting, later = FAULTS.get(name, ([], None))
        fault = waiting.pop(0) if waiting else later
    return (fault or "").split(":", 1)


def sign(keys, method, raw_path, query, headers, signed, stamp, payload):
    """Returns the signature of a request in Signature Version 4. It follows the published description and uses no
    client's code."""
    pairs = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
    canonical = "\n".join([
        method, raw_path,
        "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in pairs),
        "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in signed), ";".join(signed), payload])
    day = stamp[:8]
    scope = f"{day}/{keys['region']}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + keys["secret"]).encode()
    for part in (day, keys["region"], "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for files, under the faults that were set."""
    protocol_version = "HTTP/1.1"
    # the head and the body of an answer are sent separately
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        """Logs a request and answers it."""
        target = urllib.parse.urlsplit(self.path)
        self.name = urllib.parse.unquote(target.path.lstrip("/"))
        self.fault, *rest = next_fault(self.name)
        self.argument = rest[0] if rest else ""
        self.entry = {"name": self.name, "path": self.path, "range": self.headers.get("Range", ""), "status": 0, "sent": 0,
                      "headers": {k.lower(): v for k, v in self.headers.items()}}
        with STATE:
            LOG.append(self.entry)
            ACTIVE.append(self.entry)
            self.entry["beside"] = len(ACTIVE)
        try:
            self.answer(target)
        finally:
            with STATE:
                ACTIVE[:] = [entry for entry in ACTIVE if entry is not self.entry]

    def answer(self, target):
        """Checks the signature if one is required, and then meets the request with its fault or serves the file."""
        if KEYS and not self.signed_well(target):
            return
        handler = getattr(self, "fault_" + self.fault.replace("-", "_"), None)
        if handler is None or not handler():
            self.serve()

    def reply(self, status, headers, body=b"", length=None):
        """Sends a whole answer; `length` replaces the true length of the body in the head."""
        self.entry["status"] = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.send(body)

    def send(self, body):
        """Sends bytes of a body and counts them. A client that has gone away is no error."""
        self.entry["sent"] += len(body)
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def xml(self, status, code, region=""):
        """Sends an error in the form of S3."""
        where = f"<Region>{region}</Region>" if region else ""
        self.reply(status, {"Content-Type": "application/xml"},
                   f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message>{where}</Error>".encode())

    def signed_well(self, target):
        """Returns whether the request has the right signature; sends the error if it does not."""
        given = self.headers.get("Authorization", "")
        if not given:
            self.xml(403, "AccessDenied")
            return False
        fields = dict(part.strip().split("=", 1) for part in given.split(" ", 1)[1].split(","))
        signed = fields["SignedHeaders"].split(";")
        headers = {k.lower(): v for k, v in self.headers.items()}
        stamp, payload = headers.get("x-amz-date", ""), headers.get("x-amz-content-sha256", "")
        want = sign(KEYS, "GET", target.path, target.query, headers, signed, stamp, payload)
        scope = f"{KEYS['access']}/{stamp[:8]}/{KEYS['region']}/s3/aws4_request"
        good = (fields["Credential"] == scope and fields["Signature"] == want and "host" in signed
                and headers.get("x-amz-security-token", "") == KEYS.get("token", "")
                and (not KEYS.get("token") or "x-amz-security-token" in signed))
        if not good:
            self.xml(403, "SignatureDoesNotMatch")
        return good

    # Each fault returns True if it has answered the request. Otherwise the file is served, possibly after a pause.
    def fault_status(self):
        code, _, after = self.argument.partition(":")
        self.reply(int(code), {"Retry-After": after} if after else {}, b"no")
        return True

    def fault_xml(self):
        status, code, region = self.argument.split(":")
        self.xml(int(status), code, region)
        return True

    def fault_redirect(self):
        code, _, to = self.argument.partition(":")
        self.reply(int(code), {"Location": to})
        return True

    def fault_slow(self):
        time.sleep(int(self.argument) / 1000)
        return False

    def fault_silent(self):
        self.close_connection = True
        self.connection.shutdown(2)
        return True

    def fault_hang(self):
        self.entry["status"] = -1
        self.rfile.read(1)  # waits until the client goes away
        self.close_connection = True
        return True

    def fault_whole(self):
        self.reply(200, {}, self.content())
        return True

    def fault_whole_length(self):
        self.close_connection = True
        self.reply(200, {}, b"a few bytes", length=int(self.argument))
        return True

    def fault_endless_error(self):
        self.reply(403, {}, b"x" * 100000, length=1 << 50)
        while not self.close_connection:
            self.send(b"x" * 100000)
        return True

    def fault_basic(self):
        want = "Basic " + base64.b64encode(self.argument.encode()).decode()
        if self.headers.get("Authorization") == want:
            return False
        self.reply(401, {"WWW-Authenticate": "Basic realm=x"}, b"no")
        return True

    def content(self):
        """Returns the bytes of the file."""
        with open(os.path.join(FOLDER, self.name), "rb") as f:
            return f.read()

    def serve(self):
        """Sends a range of the file as an honest server does, except for what the fault changes in the head."""
        path = os.path.join(FOLDER, self.name)
        if not os.path.isfile(path):
            self.reply(404, {}, b"no such file")
            return
        facts = os.stat(path)
        total = facts.st_size
        etag = '"%x-%x"' % (facts.st_mtime_ns, total)
        etag = {"weak-etag": "W/" + etag, "other-etag": '"another"', "no-etag": ""}.get(self.fault, etag)
        if self.headers.get("If-Match", etag) != etag:
            self.reply(412, {}, b"changed")
            return
        wanted = self.headers.get("Range", "bytes=0-")[6:].split("-")
        first, last = int(wanted[0]), min(int(wanted[1] or total), total - 1)
        if self.fault == "at-most":
            last = min(last, first + int(self.argument) - 1)
        headers = {"ETag": etag} if etag else {}
        if first >= total:
            self.reply(416, {"Content-Range": f"bytes */{total}"})
            return
        with open(path, "rb") as f:
            f.seek(first)
            body = f.read(last - first + 1)
        shift = int(self.argument) if self.fault == "shifted" else 0
        said = int(self.argument) if self.fault == "total" else total
        if self.fault != "no-content-range":
            headers["Content-Range"] = f"bytes {first + shift}-{last + shift}/{said}"
        if self.fault == "gzip":
            headers["Content-Encoding"] = "gzip"
        self.send_part(headers, body)

    def send_part(self, headers, body):
        """Sends a range, except for what the fault changes in the body."""
        if self.fault == "long":
            body += b"more than there is"
        if self.fault == "short":
            body = body[:len(body) // 2]
        if self.fault == "cut":
            self.reply(206, headers, body[:int(self.argument)], length=len(body))
            self.wfile.flush()
            self.connection.shutdown(2)
            self.close_connection = True
        elif self.fault == "drip":
            self.reply(206, headers, b"", length=len(body))
            for i in range(len(body)):
                self.send(body[i:i + 1])
                if self.close_connection:
                    break
                time.sleep(int(self.argument) / 1000)
        else:
            self.reply(206, headers, body)


class Server(http.server.ThreadingHTTPServer):
    """Serves each request in a thread of its own."""
    daemon_threads = True

    def handle_error(self, *_):
        pass  # tests let clients go away on purpose, so it is not worth a message


def openssl(*arguments):
    """Runs openssl, which must succeed."""
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def certificate(kind):
    """Makes a certificate of a kind. Returns the files of its key, of the certificate and of the authority's
    certificate."""
    base = os.path.join(FOLDER, "tls-" + kind)
    os.makedirs(base, exist_ok=True)
    at = lambda name: os.path.join(base, name)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = "subjectAltName=" + ("DNS:other.example" if kind == "other" else "DNS:localhost,IP:127.0.0.1")
    openssl("req", "-x509", *key, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-days", "2", "-subj", "/CN=authority")
    if kind == "self":
        openssl("req", "-x509", *key, "-keyout", at("key"), "-out", at("pem"), "-days", "2", "-subj", "/CN=localhost",
                "-addext", names)
    else:
        openssl("req", *key, "-keyout", at("key"), "-out", at("csr"), "-subj", "/CN=server", "-addext", names)
        openssl("x509", "-req", "-in", at("csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "2",
                "-copy_extensions", "copy", "-out", at("pem"))
    return at("key"), at("pem"), at("ca.pem")


def start(port=0, kind=None):
    """Starts a server on a port, 0 for any; with TLS if `kind` names a certificate. Returns the port and the
    authority's file."""
    server = Server(("127.0.0.1", port), Handler)
    authority = ""
    if kind:
        key, chain, authority = certificate(kind)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {"port": server.server_address[1], "authority": authority}


def obey(command):
    """Executes a command from the standard input and returns its answer."""
    if command["do"] == "faults":
        with STATE:
            FAULTS[command["name"]] = (list(command.get("list", [])), command.get("then"))
    elif command["do"] == "keys":
        KEYS.clear()
        KEYS.update({k: v for k, v in command.items() if k != "do"})
    elif command["do"] == "tls":
        return start(kind=command["kind"])
    elif command["do"] == "log":
        with STATE:
            out = list(LOG)
            LOG.clear()
        return out
    elif command["do"] == "active":
        with STATE:
            return len(ACTIVE)
    return {}


def main():
    """Starts the server and executes commands until the input ends."""
    print(json.dumps(start(int(sys.argv[2]) if len(sys.argv) > 2 else 0)), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)


main()
