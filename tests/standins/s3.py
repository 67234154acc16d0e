"""A real S3-compatible server in a thread, which verifies the signature of every request."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import botocore.session
import httpx
from moto.server import ThreadedMotoServer

BUCKET = "acme-images"
REGION = "eu-west-1"


@dataclass(frozen=True)
class S3Server:
    url: str
    access_key: str
    secret_key: str
    admin: Any  # a client of another library

    def names(self) -> list[str]:
        return [each["Key"] for each in self.admin.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


@contextmanager
def an_s3_server() -> Iterator[S3Server]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield _prepared(f"http://{host}:{port}")
    finally:
        server.stop()


def _prepared(url: str) -> S3Server:
    """Create a bucket and a user, then switch on the verification of signatures."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    httpx.post(f"{url}/moto-api/reset", timeout=60).raise_for_status()
    session = botocore.session.get_session()

    def client(service: str, access_key: str, secret_key: str) -> Any:
        return session.create_client(
            service,
            endpoint_url=url,
            region_name=REGION,
            aws_access_key_id=access_key,
            aws_secret_access_key=secret_key,
        )

    iam = client("iam", "anyone", "anything")
    iam.create_user(UserName="mailwright")
    allowed = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
    iam.put_user_policy(UserName="mailwright", PolicyName="images", PolicyDocument=allowed)
    key = iam.create_access_key(UserName="mailwright")["AccessKey"]
    admin = client("s3", key["AccessKeyId"], key["SecretAccessKey"])
    admin.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    httpx.post(f"{url}/moto-api/reset-auth", content="0", timeout=60).raise_for_status()
    return S3Server(url, key["AccessKeyId"], key["SecretAccessKey"], admin)
