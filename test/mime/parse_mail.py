"""Reads mails (each after its length, four octets, big endian) and writes what Python's own email package
makes of each, as one line of JSON."""
import base64
import json
import struct
import sys
from email import message_from_string, policy


def b64(octets):
    return base64.b64encode(octets).decode()


def people(mail, name):
    values = mail.get_all(name, [])
    return [[address.display_name, address.addr_spec] for value in values for address in value.addresses]


def parse(octets):
    mail = message_from_string(octets.decode("utf-8"), policy=policy.SMTPUTF8)
    found = {
        "subject": mail["subject"],
        "from": [address.addr_spec for address in mail["from"].addresses],
        "to": [address.addr_spec for address in mail["to"].addresses],
        "messageId": mail["message-id"],
        "dateMs": int(mail["date"].datetime.timestamp() * 1000) if mail["date"] else None,
        "plain": None,
        "html": None,
        "attachments": [],
        "head": {
            "from": people(mail, "from"),
            "to": people(mail, "to"),
            "cc": people(mail, "cc"),
            "replyTo": people(mail, "reply-to"),
            "headers": [[name, str(value)] for name, value in mail.items()],
        },
        "defects": [str(defect) for part in mail.walk() for defect in part.defects],
    }
    for part in mail.walk():
        if part.is_multipart():
            continue
        content = part.get_payload(decode=True)
        if part.get_content_disposition() in ("attachment", "inline"):
            # get_filename() would strip blanks at its ends.
            name = part["content-disposition"].params.get("filename", "")
            found["attachments"].append(
                {
                    "name": name,
                    "type": part.get_content_type(),
                    "id": str(part["content-id"]) if "content-id" in part else None,
                    "content": b64(content),
                }
            )
        else:
            found["plain" if part.get_content_subtype() == "plain" else "html"] = b64(content)
    return found


mails = sys.stdin.buffer
while head := mails.read(4):
    print(json.dumps(parse(mails.read(struct.unpack(">I", head)[0]))))
