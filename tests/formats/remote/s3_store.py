#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads Tensogram files from a store that another project has written: S3 as moto implements it.

usage: s3_store.py PEER WORK_FOLDER [WEIR]

PEER is the program remote_peer; WEIR, if given, is the command line. moto comes from $WEIR_MOTO_PYTHON, an interpreter
that has it, or is installed from PyPI into a virtual environment below WORK_FOLDER. The store checks every signature with
botocore's own code. If moto cannot be installed, the program ends with 77, which CTest counts as skipped.
"""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))
import virtual_environment  # noqa: E402

VERSION = "5.2.5"  # version 5.2.1 refuses right signatures of keys with a plus sign
PACKAGES = [f"moto[s3]=={VERSION}", "flask", "flask-cors"]  # moto[server] installs twice as much
SKIPPED = 77
REGION = "eu-west-1"


def have_moto():
    """Returns whether this interpreter has moto in the right version."""
    try:
        import boto3  # noqa: F401
        import moto.server  # noqa: F401
        return importlib.metadata.version("moto") == VERSION
    except ImportError:
        return False


def interpreter(work):
    """Returns the path of an interpreter that has moto in the right version, or None. Makes one if none is given."""
    return virtual_environment.interpreter(
        os.environ.get("WEIR_MOTO_PYTHON"), os.path.join(work, "moto-venv"), PACKAGES,
        ["-B", os.path.abspath(__file__), "--have"], seconds=150)


def check(condition, what):
    """Ends the test if a condition does not hold."""
    if not condition:
        sys.exit(f"FAILED: {what}")


class Store:
    """A running store with a bucket, a user who may read it, and one who may not."""

    def __init__(self):
        import boto3
        from moto import settings
        from moto.server import ThreadedMotoServer
        self.server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self.server.start()
        self.endpoint = "http://%s:%s" % self.server.get_host_and_port()
        options = {"endpoint_url": self.endpoint, "region_name": REGION, "aws_access_key_id": "owner",
                   "aws_secret_access_key": "owner"}
        self.s3 = boto3.client("s3", **options)
        self.s3.create_bucket(Bucket="weather", CreateBucketConfiguration={"LocationConstraint": REGION})
        iam = boto3.client("iam", **options)
        self.keys = {}
        for user, resource in (("reader", "*"), ("stranger", "arn:aws:s3:::another/*")):
            iam.create_user(UserName=user)
            policy = {"Version": "2012-10-17",
                      "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": resource}]}
            iam.put_user_policy(UserName=user, PolicyName="read", PolicyDocument=json.dumps(policy))
            key = iam.create_access_key(UserName=user)["AccessKey"]
            self.keys[user] = (key["AccessKeyId"], key["SecretAccessKey"])
        self.settings = settings

    def put(self, key, content):
        """Stores an object in the bucket."""
        self.s3.put_object(Bucket="weather", Key=key, Body=content)

    def lock(self):
        """Lets the store refuse every request from now on that is not signed by a user who may send it."""
        self.settings.INITIAL_NO_AUTH_ACTION_COUNT = 0

    def environment(self, user="reader", **more):
        """Returns an environment that gives a program the keys of a user."""
        access, secret = self.keys[user]
        known = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        return {**known, "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": REGION,
                "AWS_ENDPOINT_URL": self.endpoint, "no_proxy": "127.0.0.1", **more}


def run(command, environment):
    """Runs a command and returns what it printed and its exit code."""
    return subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True, timeout=120)


def objects_are_read(peer, store, keys, digests, size):
    """Checks that an object is read under every key, with few requests and few more bytes than the object has."""
    for key, address in keys:
        done = run([peer, "read", address, 1, 4], store.environment())
        check(done.returncode == 0, f"{key}: {done.stderr}")
        found = json.loads(done.stdout)
        check((found["messages"], found["size"]) == (2, size), f"{key}: {found}")
        check(found["objects"] == [{"bytes": 1000000, "xxh3": digests[6 + 4]}], f"{key}: elements differ")
        check(found["requests"] <= 6 and found["bytes"] < 1300000, f"{key}: {found}")
        print(f"read an object of 1,000,000 bytes out of {size} as {key!r}: {found['requests']} requests, "
              f"{found['bytes']} bytes")


def refusals_are_clear(peer, store):
    """Checks the errors for a wrong secret, a user without access, an unknown key and a missing object; none may show
    a secret."""
    secret = store.keys["reader"][1]
    address = "s3://weather/big.tgm"
    cases = [
        ("a wrong secret", address, store.environment(AWS_SECRET_ACCESS_KEY="wrong" + secret), "SignatureDoesNotMatch"),
        ("a user who may not", address, store.environment("stranger"), "AccessDenied"),
        ("an unknown key", address, store.environment(AWS_ACCESS_KEY_ID="AKIAUNKNOWN"), "InvalidAccessKeyId"),
        ("no such object", "s3://weather/missing.tgm", store.environment(), "expected status 206, found 404"),
    ]
    for what, where, environment, text in cases:
        done = run([peer, "read", where], environment)
        check(done.returncode != 0 and text in done.stderr, f"{what}: {done.stderr}")
        check(secret not in done.stderr, f"{what}: shows a secret")
        print(f"refused {what}: {done.stderr.splitlines()[0]}")


def verbs_read(weir, store, path, small):
    """Checks that the command line gives the same output for an address as for the file."""
    for verb in (["ls", "-p", "name"], ["info"], ["get", "-p", "version"], ["validate", "--quick"], ["dump", "-j"]):
        ours, theirs = ([weir, "tgm", *verb, where] for where in ("s3://weather/small.tgm", small))
        remote, local = run(ours, store.environment()), run(theirs, store.environment())
        check(remote.returncode == local.returncode == 0, f"{verb}: {remote.stderr}{local.stderr}")
        check(remote.stdout.replace("s3://weather/small.tgm", small) == local.stdout, f"{verb}: {remote.stdout}")
    out = os.path.join(path, "copy.tgm")
    done = run([weir, "tgm", "copy", "s3://weather/small.tgm", out], store.environment())
    check(done.returncode == 0, done.stderr)
    with open(out, "rb") as a, open(small, "rb") as b:
        check(a.read() == b.read(), "copy differs")
    print("weir tgm info, ls, get, dump, validate, copy: as with the file")


def main():
    """Restarts itself with an interpreter that has moto, fills a store and runs the checks."""
    if sys.argv[1:] == ["--have"]:
        sys.exit(0 if have_moto() else 1)
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    peer, work = sys.argv[1:3]
    if not have_moto():
        python = interpreter(work)
        if python is None:
            print(f"SKIPPED: moto {VERSION} cannot be had: set WEIR_MOTO_PYTHON to a Python that has it, or let pip reach PyPI")
            sys.exit(SKIPPED)
        sys.exit(subprocess.run([python, "-B", __file__, *sys.argv[1:]]).returncode)
    with tempfile.TemporaryDirectory() as folder:
        big = os.path.join(folder, "big.tgm")
        made = run([peer, "make", big], os.environ)
        check(made.returncode == 0, made.stderr)
        with open(big, "rb") as f:
            content = f.read()
        store = Store()
        keys = [("big.tgm", "s3://weather/big.tgm"), ("2026/07/a b+c=d.tgm", "s3a://weather/2026/07/a b+c=d.tgm"),
                ("\u00e9t\u00e9.tgm", "s3://weather/%C3%A9t%C3%A9.tgm")]
        for key, _ in keys:
            store.put(key, content)
        suite = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "conformance", "tensogram")
        small = os.path.join(suite, "layout", "two.tgm")
        with open(small, "rb") as f:
            store.put("small.tgm", f.read())
        store.lock()
        objects_are_read(peer, store, keys, json.loads(made.stdout), len(content))
        refusals_are_clear(peer, store)
        if len(sys.argv) == 4:
            verbs_read(sys.argv[3], store, folder, small)
    print("0 failures")


if __name__ == "__main__":
    main()
