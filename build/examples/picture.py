#!/usr/bin/env python3
"""picture.py TO FILE: mails a picture, and tells what became of it. Needs nothing but Python 3.

Fieldpost answers 202 when mail and picture are on the disk. The program may end there. This one waits for a minute to tell
the outcome: with a link the mail is sent by then, without one it waits on the device.
"""

import json
import mimetypes
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
import uuid

URL = os.environ.get("FIELDPOST_URL", "http://127.0.0.1:43770") + "/api/internal/messages"


def form(fields, path):
    """The octets of a form with one file, and its media type."""
    boundary = uuid.uuid4().hex
    lines = []
    for name, value in fields.items():
        lines += [f"--{boundary}", f'Content-Disposition: form-data; name="{name}"', "", value]
    filename = os.path.basename(path).replace('"', "%22")
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    lines += [
        f"--{boundary}",
        f'Content-Disposition: form-data; name="file"; filename="{filename}"',
        f"Content-Type: {kind}",
        "Content-ID: <picture>",
        "",
        "",
    ]
    with open(path, "rb") as file:
        body = "\r\n".join(lines).encode() + file.read() + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


def call(request):
    """The JSON of the answer. A refusal says in plain words what to do."""
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        sys.exit(f"refused: {json.load(refusal)['detail']}")
    except urllib.error.URLError as trouble:
        sys.exit(f"no answer: {trouble.reason}")


def main():
    to, path = sys.argv[1:]
    body, kind = form(
        {
            "destination": to,
            "subject": "The gate is open",
            "plain": "The camera's picture is attached.",
            "html": '<p>The gate is open:</p><img src="cid:picture" alt="the gate">',
        },
        path,
    )
    headers = {"Content-Type": kind, "Idempotency-Key": str(uuid.uuid4())}
    [mail] = call(urllib.request.Request(URL, body, headers))
    print(f"queued as {mail['id']}")
    outcome = call(f"{URL}/{urllib.parse.quote(mail['id'])}?wait={os.environ.get('WAIT', '60')}")
    print(f"{outcome['status']}: {outcome['lastReply'] or 'not tried yet'}")


if __name__ == "__main__":
    main()
