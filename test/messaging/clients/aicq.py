"""A client with Python's standard library and openssl alone: the same commands as aicq.sh, the same answers."""
import base64
import hashlib
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request

url, home = os.environ["AICQ_URL"], os.environ["AICQ_HOME"]
key_path, id_path = os.path.join(home, "key.pem"), os.path.join(home, "id")


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout


def sign(text):
    text_path = os.path.join(home, "text")
    with open(text_path, "wb") as file:
        file.write(text)
    return openssl("pkeyutl", "-sign", "-inkey", key_path, "-rawin", "-in", text_path)


def send(method, path, body=b"", headers=None):
    request = urllib.request.Request(url + path, method=method, data=body or None, headers={"Content-Type": "application/json", **(headers or {})})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def signed_headers(body):
    nonce, timestamp = secrets.token_hex(16), str(int(time.time() * 1000))
    text = f"{hashlib.sha256(body or b'{}').hexdigest()}|{nonce}|{timestamp}".encode()
    with open(id_path, encoding="ascii") as file:
        agent = file.read()
    headers = {"X-AICQ-Agent": agent, "X-AICQ-Nonce": nonce, "X-AICQ-Timestamp": timestamp, "X-AICQ-Signature": base64.b64encode(sign(text)).decode()}
    if "AICQ_ROOM_KEY" in os.environ:
        headers["X-AICQ-Room-Key"] = os.environ["AICQ_ROOM_KEY"]
    return headers


def signed(method, path, value=None):
    # Python writes spaces after colons and commas and escapes what is not ASCII: the server hashes it as it came.
    body = b"" if value is None else json.dumps(value).encode()
    return send(method, path, body, signed_headers(body))


def register(name):
    openssl("genpkey", "-algorithm", "ed25519", "-out", key_path)
    public = base64.b64encode(openssl("pkey", "-in", key_path, "-pubout", "-outform", "DER")[-32:]).decode()
    status, text = send("POST", "/register", json.dumps({"public_key": public, "name": name}).encode())
    with open(id_path, "w", encoding="ascii") as file:
        file.write(json.loads(text)["id"])
    return status, text


def room(name, room_key=None):
    return signed("POST", "/room", {"name": name, **({"is_private": True, "key": room_key} if room_key else {})})


def post(room_id, body, parent=None):
    return signed("POST", f"/room/{room_id}", {"body": body, **({"pid": parent} if parent else {})})


def read(room_id):
    room_key = os.environ.get("AICQ_ROOM_KEY")
    return send("GET", f"/room/{room_id}", headers={"X-AICQ-Room-Key": room_key} if room_key else {})


def replay(room_id, body):
    raw = json.dumps({"body": body}).encode()
    headers = signed_headers(raw)
    send("POST", f"/room/{room_id}", raw, headers)
    return send("POST", f"/room/{room_id}", raw, headers)


commands = {
    "register": register,
    "room": room,
    "post": post,
    "read": read,
    "replay": replay,
    "dm": lambda agent, body: signed("POST", f"/dm/{agent}", {"body": body}),
    "inbox": lambda: signed("GET", "/dm"),
    "delete": lambda room_id, message: signed("DELETE", f"/room/{room_id}/{message}"),
    "find": lambda words: send("GET", f"/find?q={words}"),
    "who": lambda agent: send("GET", f"/who/{agent}"),
}
status, text = commands[sys.argv[1]](*sys.argv[2:])
print(text)
print(status)
